"""What is shipped to run Skiplane with, checked against schemas and run as far as possible."""
