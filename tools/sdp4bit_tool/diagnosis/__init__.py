"""What `sdp4bit doctor` looks at: files, a command that it watches, the machine, the environment."""
