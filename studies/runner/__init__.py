"""The runner of studies: jobs that resume, one file of options, one table."""
