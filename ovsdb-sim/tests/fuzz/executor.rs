//! Valid and broken transactions on random schemas. After each, all constraints must hold.

use std::cell::Cell;
use std::sync::Arc;

use patchbay_engine::db::{Access, Database, Execution};
use patchbay_schemas::json::{Reader, TextBuf};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{DecodedTransaction, decode_transaction};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use crate::generate::{self, Generator};
use crate::model::Model;
use crate::{mutate, run, seeds};

/// Number of cases, which take about four seconds.
const CASES: u32 = 1500;

#[test]
fn every_transaction_preserves_the_constraints() {
    let (inputs, commits) = (Cell::new(0_u64), Cell::new(0_u64));
    run(CASES, &seeds(40), |seeds| {
        let mut bed = Bed::new(seeds.schema);
        for step in &seeds.steps {
            let text = bed.transaction(step);
            inputs.set(inputs.get() + 1);
            let changed = bed.step(&text).map_err(|error| {
                format!("{error}\nafter {text}\non {}", generate::schema(seeds.schema))
            })?;
            commits.set(commits.get() + u64::from(changed));
        }
        bed.delete_all()
    });
    println!("{} transactions, {} changed something", inputs.get(), commits.get());
    assert!(commits.get() * 20 > inputs.get(), "hardly anything was committed");
}

struct Bed {
    database: Database,
    generator: Generator,
    model: Model,
    strings: StringCache,
    uuids: UuidSource,
}

impl Bed {
    fn new(schema: u64) -> Self {
        let text = generate::schema(schema);
        let schema = Arc::new(DatabaseSchema::parse(text.as_bytes()).unwrap());
        let database = Database::with_uuids(schema, UuidSource::seeded(1));
        Self {
            model: Model::of(&database.snapshot()),
            database,
            generator: Generator::new(&text),
            strings: StringCache::default(),
            uuids: UuidSource::seeded(2),
        }
    }

    /// The parameters of a transaction, broken in half of the cases.
    fn transaction(&mut self, seeds: &[u64]) -> String {
        let rng = &mut StdRng::seed_from_u64(!seeds[0]);
        // With more operations, a failure is more likely.
        let operations = if rng.random_bool(0.6) { 1 } else { seeds.len() };
        let text = self.generator.transaction(&seeds[..operations]);
        if rng.random_bool(0.5) {
            return text;
        }
        let mut params: Value = serde_json::from_str(&text).unwrap();
        let operations = params.as_array_mut().unwrap();
        let at = rng.random_range(1..operations.len());
        mutate::tree(rng, &mut operations[at]);
        params.to_string()
    }

    fn decode(&mut self, text: &str) -> Option<DecodedTransaction> {
        let text = TextBuf::parse(text.as_bytes().to_vec()).ok()?;
        let mut reader = Reader::new(text.as_text());
        (reader.enter_array() && reader.next_element()).then_some(())?;
        reader.skip();
        let schema = self.database.schema().clone();
        Some(decode_transaction(reader, &schema, &mut self.strings, &mut self.uuids))
    }

    /// Executes a transaction. Returns `true` if it changed anything.
    fn step(&mut self, text: &str) -> Result<bool, String> {
        let Some(mut transaction) = self.decode(text) else {
            return Ok(false);
        };
        let execution = self.database.execute(&mut transaction, &Access::unrestricted());
        let snapshot = self.database.snapshot();
        let after = Model::of(&snapshot);
        let changed = match &execution {
            Execution::Committed { changes, results } => {
                if results.len() != transaction.total {
                    return Err(format!("{} results", results.len()));
                }
                self.model.check_changes(&after, changes)?;
                !changes.rows.is_empty()
            }
            Execution::Failed { .. } | Execution::Waiting { .. } if self.model != after => {
                return Err("a transaction that failed changed something".to_owned());
            }
            Execution::Failed { .. } | Execution::Waiting { .. } => false,
        };
        if changed {
            after.check(&snapshot)?;
            self.check_counts(&after)?;
            self.model = after;
        }
        Ok(changed)
    }

    /// Checks the reference counts: a row with references cannot be deleted, and the error has
    /// their number.
    fn check_counts(&mut self, model: &Model) -> Result<(), String> {
        for (table, uuid, count) in model.strong_counts() {
            if count == 0 {
                continue;
            }
            let result = self.delete(&table, &uuid);
            let expected = format!(
                "cannot delete {table} row {uuid} because of {count} remaining reference(s)"
            );
            if result.as_ref().err() != Some(&expected) {
                return Err(format!("{result:?} instead of {expected}"));
            }
        }
        Ok(())
    }

    fn delete(&mut self, table: &str, uuid: &str) -> Result<(), String> {
        let text = format!(
            r#"["D",{{"op":"delete","table":"{table}","where":[["_uuid","==",["uuid","{uuid}"]]]}}]"#
        );
        let mut transaction = self.decode(&text).unwrap();
        match self.database.execute(&mut transaction, &Access::unrestricted()) {
            Execution::Failed { error, .. } => Err(error.details.unwrap_or_default().into()),
            _ => Ok(()),
        }
    }

    /// Deletes all rows, and checks that no references are left.
    fn delete_all(mut self) -> Result<(), String> {
        let tables = self.database.schema().tables.clone();
        let operations = tables
            .iter()
            .map(|table| format!(r#",{{"op":"delete","table":"{}","where":[]}}"#, table.name));
        let text = format!("[\"D\"{}]", operations.collect::<String>());
        let mut transaction = self.decode(&text).unwrap();
        match self.database.execute(&mut transaction, &Access::unrestricted()) {
            Execution::Failed { error, .. } => Err(format!("not everything can go: {error}")),
            _ => match self.database.snapshot().row_count() {
                0 => Ok(()),
                left => Err(format!("{left} rows are left")),
            },
        }
    }
}
