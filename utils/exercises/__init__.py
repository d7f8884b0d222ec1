"""The chapters' exercises: how an answer is judged, and for each chapter the truths, from runs, and known mistakes."""
