"""The interactions, requester and responder side by side, and the demand that drives them."""
