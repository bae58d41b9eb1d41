"""Questions with evidence boxes from COCO instances."""
