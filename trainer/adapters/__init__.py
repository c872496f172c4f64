"""Our rewards and advantages inside the trainers that people run on clusters, one file each."""
