//! Random schemas and requests for them: those of the differential tests.

#[path = "../differential/random/conditions.rs"]
mod conditions;
#[path = "../differential/random/monitor_requests.rs"]
mod monitor_requests;
#[path = "../differential/random/requests.rs"]
mod requests;
#[path = "../differential/random/schema.rs"]
mod schema;
#[path = "../differential/random/sequences.rs"]
mod sequences;
#[path = "../differential/random/values.rs"]
mod values;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use requests::{CLOSE, Requests};

/// Generator of requests.
pub(crate) struct Generator {
    requests: Requests,
}

/// The text of a random schema.
pub(crate) fn schema(seed: u64) -> String {
    schema::random(seed)
}

impl Generator {
    pub(crate) fn new(schema: &str) -> Self {
        Self { requests: Requests::new(schema) }
    }

    /// The parameters of a `transact` with an operation for each seed.
    pub(crate) fn transaction(&mut self, seeds: &[u64]) -> String {
        let mut seeds = seeds.to_vec();
        loop {
            let (_, method, params) = self.requests.any(&seeds, 0);
            if method == "transact" {
                return params;
            }
            seeds[0] = seeds[0].wrapping_add(1);
        }
    }

    /// Method and parameters of a request of any kind.
    pub(crate) fn request(&mut self, seeds: &[u64], schema: &str) -> (&'static str, String) {
        let rng = &mut StdRng::seed_from_u64(seeds[0].rotate_left(32));
        match rng.random_range(0..30) {
            0..=1 => ("echo", r#"[1.5,"x",{}]"#.to_owned()),
            2 => ("list_dbs", "[]".to_owned()),
            3 => ("get_schema", r#"["D"]"#.to_owned()),
            4 => ("get_server_id", "[]".to_owned()),
            5 => ("set_db_change_aware", "[true]".to_owned()),
            6 => ("lock", r#"["l"]"#.to_owned()),
            7 => ("steal", r#"["l"]"#.to_owned()),
            8 => ("unlock", r#"["l"]"#.to_owned()),
            9 => ("convert", format!(r#"["D",{schema}]"#)),
            10 => ("convert", format!(r#"["D",{}]"#, schema::random(seeds[0]))),
            11 => ("transact", waiting(rng)),
            12 => ("cancel", format!("[{}]", rng.random_range(0..20))),
            13..=15 => {
                let (_, method, params) = self.requests.monitor(seeds[0]);
                (method, params)
            }
            _ => match self.requests.any(seeds, 0) {
                (_, CLOSE, _) => ("echo", "[]".to_owned()),
                (_, method, params) => (method, params),
            },
        }
    }
}

/// A transaction that waits for a possible change.
fn waiting(rng: &mut StdRng) -> String {
    let timeout = ["", r#""timeout":1,"#, r#""timeout":9223372036854775807,"#];
    let timeout = values::pick(rng, &timeout);
    let until = values::pick(rng, &["==", "!="]);
    let table = rng.random_range(0..3);
    format!(
        r#"["D",{{"op":"wait",{timeout}"table":"T{table}","where":[],"columns":["_uuid"],"until":"{until}","rows":[]}}]"#
    )
}
