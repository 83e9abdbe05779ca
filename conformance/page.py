def write(measured, directory): return directory
