module conformance

go 1.22
