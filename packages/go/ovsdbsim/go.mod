module patchbay.example/ovsdbsim

go 1.22
