"""Bodies of requests and answers: the forms of TF-Serving and of others."""
