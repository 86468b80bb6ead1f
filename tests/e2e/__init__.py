"""The whole product over real sockets: a scripted upstream, a real `memproxy serve`, the real `openai` client."""
