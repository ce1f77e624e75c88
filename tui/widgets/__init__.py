"""Line-API widgets that send few bytes."""
