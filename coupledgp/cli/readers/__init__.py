"""Tables, networks and values as files hold them."""
