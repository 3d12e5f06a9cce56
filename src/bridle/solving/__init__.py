"""The only loop: it draws iterates, has them judged, and decides when to stop."""
