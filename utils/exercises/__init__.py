"""The chapters' exercises: how an answer is judged; for each chapter the truths, run or closed form, and mistakes."""
