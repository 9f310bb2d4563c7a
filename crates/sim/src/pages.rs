//! The tables of page loads and of their requests.

use transport::Report;
use transport::web::{Http, LoadReport, RequestReport, WebSpec};
use units::Time;

use crate::flow::FlowSide;
use crate::seat::Seat;
use crate::tables::{Row, Table};

/// What browsers tell, as rows.
struct Pages<'a> {
    flow: &'a str,
    web: &'a WebSpec,
    pages: Table,
    requests: Table,
}

impl Report for Pages<'_> {
    fn load(&mut self, load: &LoadReport) {
        self.pages.row(&page_row(self.flow, http(self.web.http), load));
    }

    fn request(&mut self, request: &RequestReport) {
        let object = &self.web.page.objects[request.object as usize];
        let from = &self.web.page.hosts[object.host as usize].name;
        self.requests.row(&request_row(self.flow, [&object.name, from], request));
    }
}

/// `pages` and `requests`. `loads` are the pages that the flows load, by flow.
pub fn tables(seats: &[Seat], sides: &[FlowSide], loads: &[Option<WebSpec>]) -> [Table; 2] {
    let mut pages = Table::declared("pages", &page_row("", "", &LoadReport::default()));
    let mut requests =
        Table::declared("requests", &request_row("", ["", ""], &RequestReport::default()));
    let clients = seats.iter().zip(sides).step_by(2);
    for ((seat, side), load) in clients.zip(loads) {
        let Some(web) = load else { continue };
        let mut told = Pages { flow: &side.flow, web, pages, requests };
        seat.node.tell(&mut told);
        (pages, requests) = (told.pages, told.requests);
    }
    [pages, requests]
}

/// The scenario's word.
fn http(http: Http) -> &'static str {
    match http {
        Http::Http1 => "1.1",
        Http::Http2 => "2",
        Http::Http3 => "3",
        Http::AltSvc => "alt-svc",
    }
}

fn page_row<'a>(flow: &'a str, http: &'a str, load: &LoadReport) -> Row<'a, 18> {
    let seconds = |time: Option<Time>| time.map(Time::seconds);
    // The clock of published page loads starts at connectStart, after the name is resolved.
    let after_connect = |time: Option<Time>| {
        time.zip(load.connect_start).map(|(time, start)| time.since(start).seconds())
    };
    [
        ("flow", flow.into()),
        ("load", u64::from(load.load).into()),
        ("http", http.into()),
        ("protocol", load.protocol.into()),
        ("start_s", load.start.seconds().into()),
        ("connect_start_s", seconds(load.connect_start).into()),
        ("connect_end_s", seconds(load.connect_end).into()),
        ("request_start_s", seconds(load.request_start).into()),
        ("response_start_s", seconds(load.response_start).into()),
        ("response_end_s", seconds(load.response_end).into()),
        ("content_loaded_s", seconds(load.content_loaded).into()),
        ("load_event_end_s", seconds(load.load_event_end).into()),
        ("ttr_s", after_connect(load.response_start).into()),
        ("plt_s", after_connect(load.load_event_end).into()),
        ("objects", u64::from(load.objects).into()),
        ("bytes", load.bytes.into()),
        ("connections", u64::from(load.connections).into()),
        ("finished", u64::from(load.load_event_end.is_some()).into()),
    ]
}

fn request_row<'a>(
    flow: &'a str,
    [object, host]: [&'a str; 2],
    request: &RequestReport,
) -> Row<'a, 11> {
    let seconds = |time: Option<Time>| time.map(Time::seconds);
    [
        ("flow", flow.into()),
        ("load", u64::from(request.load).into()),
        ("object", object.into()),
        ("host", host.into()),
        ("protocol", request.protocol.into()),
        ("connection", u64::from(request.connection).into()),
        ("queued_s", request.queued.seconds().into()),
        ("sent_s", seconds(request.sent).into()),
        ("response_start_s", seconds(request.response_start).into()),
        ("end_s", seconds(request.end).into()),
        ("bytes", request.bytes.into()),
    ]
}
