"""What carries frames: byte streams, WebSocket, memory. Nothing here looks inside a frame."""
