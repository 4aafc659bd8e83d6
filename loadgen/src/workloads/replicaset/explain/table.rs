//! Formats the answer for the terminal: which pods are deleted, the order as a table, what is
//! undefined, and the annotations.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use podstorm::ranking::SegmentKind;

use super::Answer;
use super::order::{OpenReason, Outcome, Reason};
use super::words::{age, counted, fate, phase, pods, reason, state};
use crate::text::columns::lines;
use crate::units::{shell_word, wrapped};
use crate::workloads::explain::Layout;

/// The number of rows to show on either side of the boundary between deleted and kept pods.
const AROUND_BOUNDARY: usize = 3;

/// The heading of the column with the rule.
const WHY: &str = "GOES BEFORE THE NEXT BY";

/// Formats the whole answer.
pub(super) fn render(answer: &Answer, layout: Layout) -> String {
    let mut out = String::new();
    let width = usize::from(layout.width);
    paragraph(&mut out, &headline(&answer.outcome), width);
    for note in &answer.notes {
        paragraph(&mut out, note, width);
    }
    out.push('\n');
    out.push_str(&table(&answer.outcome, layout));
    if let Some(text) = unsettled(&answer.outcome) {
        section(&mut out, &text, width);
    }
    if answer.advice.is_some() {
        out.push('\n');
        out.push_str(&advice(answer, width));
    }
    out
}

/// Appends a string, wrapped into lines.
pub(crate) fn paragraph(out: &mut String, text: &str, width: usize) {
    wrapped(text, width)
        .iter()
        .for_each(|line| *out += &format!("{line}\n"));
}

/// Adds a text after a blank line, wrapped into lines.
pub(crate) fn section(out: &mut String, text: &str, width: usize) {
    out.push('\n');
    paragraph(out, text, width);
}

/// Adds the number of rows left out of a table.
pub(crate) fn rows_left_out(out: &mut String, count: usize, limit: usize) {
    if count > limit {
        *out += &format!(" and {} more: --all shows every row\n", count - limit);
    }
}

/// Returns the headline: `ReplicaSet shop/web: 12 active pods, spec.replicas 12 -> 8: 4 pods are
/// deleted`.
fn headline(outcome: &Outcome) -> String {
    let meta = &outcome.object.metadata;
    let active = outcome.rows.len();
    let (before, after) = (outcome.replicas_before, outcome.replicas());
    let replicas = match before == after {
        true => format!("spec.replicas {after}"),
        false => format!("spec.replicas {before} -> {after}"),
    };
    let missing = usize::try_from(after).unwrap_or(0).saturating_sub(active);
    let what = match outcome.to_delete {
        _ if meta.is_deleting() => "it is being deleted itself, and so deletes nothing".to_owned(),
        0 if missing > 0 => format!("nothing is deleted, {} created", pods(missing)),
        0 => "nothing is deleted".to_owned(),
        1 => "1 pod is deleted".to_owned(),
        count if outcome.syncs > 1 => {
            format!("{count} pods are deleted, in {} syncs", outcome.syncs)
        }
        count => format!("{count} pods are deleted"),
    };
    let kind = outcome.kind.name();
    let name = format!("{}/{}", meta.namespace, meta.name);
    format!(
        "{kind} {name}: {}, {replicas}: {what}.",
        counted(active, "active pod")
    )
}

/// Returns the rows to show: ranges of places, in order.
fn shown(outcome: &Outcome, limit: Option<usize>) -> Vec<std::ops::Range<usize>> {
    let all = outcome.rows.len();
    let limit = limit.unwrap_or(all);
    let boundary = outcome.to_delete;
    let around = match boundary > 0 && boundary < all {
        true => boundary.saturating_sub(AROUND_BOUNDARY)..(boundary + AROUND_BOUNDARY).min(all),
        false => 0..0,
    };
    let ranges = [0..limit.min(all), around];
    let mut merged: Vec<std::ops::Range<usize>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged.retain(|range| !range.is_empty());
    merged
}

fn table(outcome: &Outcome, layout: Layout) -> String {
    if outcome.rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if layout.wide {
        table.set_content_arrangement(ContentArrangement::Disabled);
        let names = "#,POD,FATE,NODE,PHASE,READY,COST,RELATED,READY FOR,RESTARTS,SIDECARS,AGE";
        table.set_header(names.split(',').chain([WHY]));
    } else {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(layout.width);
        table.set_header(["#", "POD", "FATE", "STATE", "COST", WHY]);
    }
    let all = outcome.rows.len();
    let mut end = 0;
    // The last row may be a gap.
    for range in shown(outcome, layout.limit)
        .into_iter()
        .chain(std::iter::once(all..all))
    {
        if range.start > end {
            add_gap(&mut table, outcome, end, range.start);
        }
        end = range.end;
        for place in range {
            table.add_row(row(outcome, place, layout.wide));
        }
    }
    let numbers: &[usize] = if layout.wide {
        &[0, 6, 7, 9, 10]
    } else {
        &[0, 4]
    };
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if numbers.contains(&at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    lines(&table)
}

fn add_gap(table: &mut Table, outcome: &Outcome, from: usize, to: usize) {
    let what = match (to <= outcome.to_delete, from >= outcome.to_delete) {
        (true, _) => "deleted",
        (_, true) => "kept",
        _ => "",
    };
    table.add_row([
        "...".to_owned(),
        format!("{} more", to - from),
        what.to_owned(),
    ]);
}

fn row(outcome: &Outcome, place: usize, wide: bool) -> Vec<String> {
    let ranked = &outcome.rows[place].ranked;
    let fields = &ranked.fields;
    let name = ranked.pod.metadata.name.to_string();
    let number = (place + 1).to_string();
    let fate = fate(outcome.fate(place)).to_owned();
    let why = reason(outcome, place);
    let cost = fields.deletion_cost().to_string();
    if !wide {
        return vec![number, name, fate, state(ranked), cost, why];
    }
    let now = outcome.now;
    let or_dash = |text: &str| if text.is_empty() { "-" } else { text }.to_owned();
    vec![
        number,
        name,
        fate,
        or_dash(ranked.pod.node_name.as_deref().unwrap_or("")),
        or_dash(&phase(ranked)),
        if fields.is_ready() { "yes" } else { "no" }.to_owned(),
        cost,
        ranked.rank.to_string(),
        match fields.is_ready() {
            true => age(fields.ready_time(), now),
            false => "-".to_owned(),
        },
        fields.container_restarts().to_string(),
        fields.sidecar_restarts().to_string(),
        age(fields.creation_time(), now),
        why,
    ]
}

/// Describes what upstream leaves undefined about the order; `None` if everything is defined.
fn unsettled(outcome: &Outcome) -> Option<String> {
    let places = |range: &std::ops::Range<usize>| format!("#{}-#{}", range.start + 1, range.end);
    if let Some(open) = &outcome.open {
        let go = outcome.to_delete - open.range.start;
        let why = match open.why {
            OpenReason::Contradiction => {
                "the rules contradict themselves among them, so which ones upstream takes depends \
                 on the order in which its cache happens to list them"
            }
            OpenReason::Tie => {
                "no rule tells them apart, so which ones upstream takes depends on the order in \
                 which its cache happens to list them"
            }
            OpenReason::EarlierSync => {
                "a sync before the last had pods to choose from that the rules don't settle, and \
                 the pods on each node are counted again after it"
            }
        };
        return Some(format!(
            "* {go} of the {} pods {} go: {why}. Shown is what this controller does.",
            open.range.len(),
            places(&open.range)
        ));
    }
    let places = |wanted: SegmentKind| {
        const SHOWN: usize = 4;
        let of_kind = outcome
            .segments
            .iter()
            .filter(move |one| one.kind == wanted);
        let all: Vec<String> = of_kind.map(|segment| places(&segment.range)).collect();
        match all.len() {
            0..=SHOWN => all.join(", "),
            count => format!(
                "{} and {} more such",
                all[..SHOWN].join(", "),
                count - SHOWN
            ),
        }
    };
    let tied = places(SegmentKind::Tied);
    let contradictory = places(SegmentKind::Contradictory);
    let what = match (tied.is_empty(), contradictory.is_empty()) {
        (true, true) => return None,
        (false, true) => format!("No rule tells {tied} apart"),
        (true, false) => format!("The rules contradict themselves among {contradictory}"),
        (false, false) => format!(
            "No rule tells {tied} apart, and the rules contradict themselves among {contradictory}"
        ),
    };
    Some(format!(
        "{what}: there upstream's order is a matter of chance. For this count it makes no \
         difference to who goes."
    ))
}

fn advice(answer: &Answer, width: usize) -> String {
    let Some((preferred, wished, advice)) = &answer.advice else {
        return String::new();
    };
    let to_delete = answer.outcome.to_delete;
    let mut out = String::new();
    let (by_pod, by_node) = (wished.by_pod, wished.by_node);
    let matched = format!(
        "{} matches {} ({by_pod} by labels of their own, {by_node} by their node's).",
        preferred.text(),
        pods(advice.wished),
    );
    paragraph(&mut out, &matched, width);
    let commands = commands(answer);
    let needed = match to_delete {
        _ if !commands.is_empty() => {
            format!(
                "To have them go first, {}:",
                counted(commands.len(), "annotation")
            )
        }
        0 => "They already go first of their kind: no annotation is needed.".to_owned(),
        _ if advice.unreachable.is_empty() => {
            "They already go: no annotation is needed.".to_owned()
        }
        _ => "No annotation makes more of them go.".to_owned(),
    };
    paragraph(&mut out, &needed, width);
    if !commands.is_empty() {
        let set = commands.iter().map(|[set, _]| format!("{set}\n"));
        out += &format!("\n{}\n", set.collect::<String>());
    }
    let (before, after) = (advice.before, advice.after);
    let checked = match to_delete {
        0 => "Checked by ranking again: whenever pods go, these go before others of their phase \
              and readiness; nothing goes now."
            .to_owned(),
        _ => format!(
            "Checked by ranking again: {after} of the {to_delete} pods that go are preferred ones \
             ({before} without the annotations)."
        ),
    };
    paragraph(&mut out, &checked, width);
    if !advice.unreachable.is_empty() {
        let stay = match advice.unreachable.len() {
            1 => "1 preferred pod stays anyway:".to_owned(),
            count => format!("{count} preferred pods stay anyway:"),
        };
        paragraph(&mut out, &stay, width);
        out.push_str(&unreachable(answer, width));
    }
    if !commands.is_empty() {
        let undo = commands.iter().map(|[_, undo]| format!("{undo}\n"));
        let undo = undo.collect::<String>();
        out += &format!("\nTo restore the pods afterwards:\n\n{undo}");
    }
    out
}

/// Formats the preferred pods that are kept, grouped by reason.
fn unreachable(answer: &Answer, width: usize) -> String {
    const SHOWN: usize = 10;
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    let advice = answer.advice.iter();
    for (place, why) in advice.flat_map(|(.., advice)| &advice.unreachable) {
        let ranked = &answer.outcome.rows[*place].ranked;
        let why = format!("{}: {why}", state(ranked));
        let name = ranked.pod.metadata.name.as_str();
        match groups.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name),
            None => groups.push((why, vec![name])),
        }
    }
    let mut out = String::new();
    for (why, names) in groups {
        let more = match names.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let names = names[..names.len().min(SHOWN)].join(", ");
        let text = format!("{names}{more} ({why})");
        for (at, line) in wrapped(&text, width - 4).iter().enumerate() {
            let indent = if at == 0 { "  " } else { "    " };
            out.push_str(&format!("{indent}{line}\n"));
        }
    }
    out
}

/// Returns, for each cost, the command that sets it and the command that restores its value in the
/// input. Both are ready to run.
pub(super) fn commands(answer: &Answer) -> Vec<[String; 2]> {
    let key = podstorm::ranking::DELETION_COST_ANNOTATION;
    let command = |(place, cost): &(usize, i32)| {
        let meta = &answer.outcome.rows[*place].ranked.pod.metadata;
        let (namespace, name) = (shell_word(&meta.namespace), shell_word(&meta.name));
        let undo = match meta.annotations.get(key) {
            Some(value) => format!("{} --overwrite", shell_word(&format!("{key}={value}"))),
            None => format!("{key}-"),
        };
        [format!("{key}={cost} --overwrite"), undo]
            .map(|change| format!("kubectl annotate pod -n {namespace} {name} {change}"))
    };
    let advice = answer.advice.iter();
    advice
        .flat_map(|(.., advice)| &advice.costs)
        .map(command)
        .collect()
}

/// Returns the name of the rule in a reason, for programs; `None` without a reason.
pub(super) fn rule_name(reason: Option<Reason>) -> Option<&'static str> {
    use podstorm::ranking::Rule;
    Some(match reason? {
        Reason::EarlierSync => "earlier-sync",
        Reason::Tie => "tie",
        Reason::Against(_) => "contradiction",
        Reason::Rule(rule) => match rule {
            Rule::Unscheduled => "unscheduled",
            Rule::Phase => "phase",
            Rule::NotReady => "not-ready",
            Rule::DeletionCost => "deletion-cost",
            Rule::Colocation => "colocation",
            Rule::ReadyTime => "ready-time",
            Rule::ReadyTimeUid => "ready-time-uid",
            Rule::Restarts => "restarts",
            Rule::CreationTime => "creation-time",
            Rule::CreationTimeUid => "creation-time-uid",
        },
    })
}
