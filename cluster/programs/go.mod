module programs

go 1.24.0
