"""A run as an HTTP service: requests in, batches through the model, answers out; and the page at `/`."""
