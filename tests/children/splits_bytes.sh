#!/bin/sh
# splits_bytes.sh: UTF-8 split over writes, NUL, invalid bytes, no newline at the end; on both streams.
printf 'caf\303'
printf '\251 \000'
printf '\377\376\200'
printf '\360\237' >&2
printf '\246\200\000\377' >&2
printf '\355\240\200\r'
