"""Reports that need no test set: every observation as the others predict it."""
