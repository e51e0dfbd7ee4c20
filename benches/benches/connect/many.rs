//! Many connects over many networks.

use anyhow::{Context as _, Result};
use patchbay_benches::connect::{Size, Zone, connect, node};

use crate::changes::there_and_back;
use crate::table::{Goal, best, head};

/// Networks that there are, on as many nodes.
const SIZE: Size = Size {
    networks: 200,
    nodes: 50,
};
/// Connects.
const CONNECTS: usize = 100;
/// Networks of each connect.
const EACH: usize = 10;

pub(crate) fn report() -> Result<()> {
    let mut inputs = SIZE.inputs()?;
    for number in 0..CONNECTS {
        let name = format!("connect{number}");
        let first = number * 2 % (SIZE.networks - EACH);
        inputs.put_connect(&name, connect(&name, first..first + EACH)?);
    }
    head("100 connects of 10 out of 200 networks, 50 nodes");
    best("connect all, from nothing", Goal::Rows, 3, || {
        Zone::new(SIZE, inputs.clone())?.pass()
    })?;
    let mut zone = Zone::new(SIZE, inputs)?;
    zone.settle()?;
    best("nothing to do", Goal::Rows, 101, || zone.pass())?;
    let added = node(SIZE.nodes, SIZE.networks)?;
    there_and_back(
        &mut zone,
        ["a node more", "a node less"],
        Goal::Rows,
        5,
        |inputs, there| {
            if there {
                inputs.put_node(added.clone());
            } else {
                inputs.nodes.remove(&added.name);
            }
            Ok(())
        },
    )?;
    there_and_back(
        &mut zone,
        [
            "a network less in one connect",
            "a network more in one connect",
        ],
        Goal::Rows,
        11,
        |inputs, there| {
            let networks = 14..14 + EACH - usize::from(there);
            inputs.put_connect("connect7", connect("connect7", networks)?);
            Ok(())
        },
    )?;
    let former = zone.inputs.connects.get("connect7").cloned();
    let former = former.context("a connect")?;
    there_and_back(
        &mut zone,
        ["a connect less", "a connect more"],
        Goal::Rows,
        5,
        |inputs, there| {
            if there {
                inputs.connects.remove("connect7");
            } else {
                inputs
                    .connects
                    .insert("connect7".to_owned(), former.clone());
            }
            Ok(())
        },
    )
}
