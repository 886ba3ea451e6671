"""What may be done with an answer: sets of classes, accepted answers, expected accuracy."""
