//! The tables of page loads and of their requests.

use transport::ReportSink;
use transport::web::{HttpVersionPolicy, LoadReport, RequestReport, WebSpec};
use units::Time;

use crate::nodes::attachment::Attachment;
use crate::nodes::flow::FlowEndpoint;
use crate::recorder::tables::{Row, Table};

/// A sink that converts reports of browsers into rows.
struct PageTables<'a> {
    flow: &'a str,
    web: &'a WebSpec,
    pages: Table,
    requests: Table,
}

impl ReportSink for PageTables<'_> {
    fn add_load_report(&mut self, load: &LoadReport) {
        self.pages.push_row(&page_row(self.flow, http_version(self.web.http), load));
    }

    fn add_request_report(&mut self, request: &RequestReport) {
        let object = &self.web.page.objects[request.object as usize];
        let from = &self.web.page.hosts[object.host as usize].name;
        self.requests.push_row(&request_row(self.flow, [&object.name, from], request));
    }
}

/// Returns the tables `pages` and `requests`. `loads` contains the page of each flow.
pub fn tables(
    attachments: &[Attachment],
    flow_endpoints: &[FlowEndpoint],
    loads: &[Option<WebSpec>],
) -> [Table; 2] {
    let mut pages = Table::with_columns("pages", &page_row("", "", &LoadReport::default()));
    let mut requests =
        Table::with_columns("requests", &request_row("", ["", ""], &RequestReport::default()));
    let clients = attachments.iter().zip(flow_endpoints).step_by(2);
    for ((attachment, side), load) in clients.zip(loads) {
        let Some(web) = load else { continue };
        let mut sink = PageTables { flow: &side.flow, web, pages, requests };
        attachment.node.report(&mut sink);
        (pages, requests) = (sink.pages, sink.requests);
    }
    [pages, requests]
}

/// Returns the value of the scenario key `http`.
fn http_version(http: HttpVersionPolicy) -> &'static str {
    match http {
        HttpVersionPolicy::Http1 => "1.1",
        HttpVersionPolicy::Http2 => "2",
        HttpVersionPolicy::Http3 => "3",
        HttpVersionPolicy::AltSvc => "alt-svc",
    }
}

fn page_row<'a>(flow: &'a str, http: &'a str, load: &LoadReport) -> Row<'a, 18> {
    let seconds = |time: Option<Time>| time.map(Time::seconds);
    // Published page load times start at connectStart, after name resolution.
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
        ("completed", u64::from(load.load_event_end.is_some()).into()),
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
