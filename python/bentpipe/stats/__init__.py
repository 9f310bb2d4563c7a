"""Statistics: metrics of raw measurements, means and their intervals, samples, the difference of two stores."""
