"""Figures of a store, one definition each for HTML, PDF and SVG.

- ``box_plots``: notched box plots of page load times
- ``bundles``: bundle events over time
- ``calls``: delay and mean opinion score of calls
- ``context``: store, metrics and panels that the figures of a store share
- ``contour``: contour lines of a quantity on a grid
- ``downsample``: fewer rows for a chart
- ``ecdf_plots``: empirical distributions and autocorrelation of page load times
- ``export``: export of figures to files
- ``figure``: chart with title and caption
- ``flow_packets``: data packets of traced flows
- ``flow_packets_plots``: time-sequence graph, flight, queueing delay and losses of traced flows
- ``layout``: layout of a figure in a given width
- ``load_waterfall``: waterfall of the two page loads of a selected cell of a ratio map
- ``packet_rows``: packets of page loads
- ``packet_sequence``: packet sequence diagram of a page load
- ``page_load_samples``: samples of page load times by variant, load and cell
- ``ratio_map``: map of ratios over a logarithmic axis and rows of equal height
- ``registry``: all figures by key; a new figure is registered here
- ``split_connections``: congestion window and RTT of split connections
- ``style``: colours, sizes and facet grids
- ``sweep_dimensions``: dimensions of a sweep and panels over them
- ``sweep_plots``: figures that compare cells
- ``time_sequence``: received bytes over time of page loads
- ``time_series``: figures of runs over time
- ``users``: goodput distribution of users of a shared link
"""
