//! Temporary.
use model::command::Work;
use super::house::*;
use super::ranges::over;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn measure() {
    let h = house("- step: s\n  loop: {in: [], iterator: item, spec: {mode: parallel}}\n  tool: {kind: noop}\n", |_| Behaviour::Panics);
    over(&h, 20000);
    let t = std::time::Instant::now();
    h.server.offer(claimed("s", 5, Work::Range { from: 0, to: 20000, width: 16 }));
    h.server.ended(5).await;
    println!("range: {:?} per iteration", t.elapsed() / 20000);
    let h = house("- step: s\n  loop: {in: [], iterator: item, spec: {mode: parallel}}\n  tool: {kind: noop, result: '{{ item + 1 }}'}\n", |_| Behaviour::Panics);
    over(&h, 20000);
    let t = std::time::Instant::now();
    h.server.offer(claimed("s", 5, Work::Range { from: 0, to: 20000, width: 16 }));
    h.server.ended(5).await;
    println!("range with template: {:?} per iteration", t.elapsed() / 20000);
    let h = house("- step: s\n  tool: {kind: noop}\n", |_| Behaviour::Panics);
    let t = std::time::Instant::now();
    let answers = (6..=1005).map(|n| Answer::Hands(Box::new(claimed("s", n, Work::Pipeline))));
    h.server.answer(answers);
    let made = t.elapsed();
    h.server.offer(claimed("s", 5, Work::Pipeline));
    h.server.ended(1005).await;
    println!("chain: {:?} per step", (t.elapsed() - made) / 1000);
}
