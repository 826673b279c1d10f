"""What each request needs of a principal's ACLs, checked before the request's endpoint is called."""
