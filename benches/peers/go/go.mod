module peers

go 1.22
