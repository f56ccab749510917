"""RSocket 1.0 for trio: message protocols with demand, under structured concurrency."""
