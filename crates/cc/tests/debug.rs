use cc::conformance::model::{Flow, Loss, Model, Path};
use cc::{Config, build};
use serde_json::json;
use units::{Span, Time};
#[test]
fn debug() {
    let c = Config { mss: 1200, initial_window: 12000, initial_rtt: Span::from_millis(333), seed: 1 };
    let mut f = Flow::new(build("cubic", &json!({"fast_convergence":false}), &c).unwrap(), &c, Span::from_millis(10));
    f.keep = true;
    let mut m = Model::new(Path::lossy(Loss::Every(10000), 1), vec![f]);
    m.run_until(Time::ZERO + Span::from_secs(100));
    let mut last = 0.0;
    for r in &m.flows[0].records {
        let Some(a) = r.ack else { continue };
        if r.now.seconds() > 90.0 && (r.now.seconds() - last > 0.03999 || a.congestion) {
            last = r.now.seconds();
            println!("{:.4} cwnd {:.2} inflight {} deliv {} lim {} cong {} rounds {}", last, r.control.cwnd as f64/1200., a.in_flight/1200, a.delivered/1200, a.cwnd_limited, a.congestion, a.rounds);
        }
    }
}
