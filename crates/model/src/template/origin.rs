//! Where the pieces of a rendered text come from: their lines and expressions in the template.

use std::ops::Range;
use std::sync::Arc;

use crate::template::tree::Piece;

/// Where a piece comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PieceOrigin {
    /// The lines of the template that the piece comes from, by their first byte in the piece. A new line in the text of
    /// a piece begins the next line of the template, unless another entry says otherwise.
    pub lines: Vec<LineStart>,
    /// The expression whose value it is, as written.
    pub expression: Option<Arc<str>>,
    /// Whether it is JSON that `tojson` or `to_json` wrote: a language with literals of its own may write the value.
    pub is_json: bool,
}

/// From a byte of a piece on, a line of the template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineStart {
    /// The byte of the piece.
    pub offset: usize,
    /// The line of the template's own text, from 0.
    pub line: u32,
}

/// A piece as it is written, with the bytes of the template it comes from.
pub(crate) struct WrittenPiece {
    pub(crate) piece: Piece,
    pub(crate) range: Range<usize>,
    /// Whether it is JSON that a filter wrote.
    pub(crate) is_json: bool,
}

/// Joins texts that stand side by side, and finds the lines and expressions of all pieces.
pub(crate) fn join(written: Vec<WrittenPiece>, source: &str) -> (Vec<Piece>, Vec<PieceOrigin>) {
    let newlines: Vec<usize> = source.match_indices('\n').map(|(at, _)| at).collect();
    let mut pieces: Vec<Piece> = Vec::with_capacity(written.len());
    let mut origins: Vec<PieceOrigin> = Vec::with_capacity(written.len());
    for WrittenPiece {
        piece,
        range,
        is_json,
    } in written
    {
        let line = newlines.partition_point(|newline| *newline < range.start);
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        match (pieces.last_mut(), origins.last_mut(), piece) {
            (Some(Piece::Text(before)), Some(origin), Piece::Text(text)) => {
                let offset = before.len();
                origin.lines.push(LineStart { offset, line });
                before.push_str(&text);
            }
            (_, _, piece) => {
                let is_value = !matches!(piece, Piece::Text(_));
                let expression = source.get(range).map(|text| text.trim().into());
                origins.push(PieceOrigin {
                    lines: vec![LineStart { offset: 0, line }],
                    expression: expression.filter(|_| is_value),
                    is_json,
                });
                pieces.push(piece);
            }
        }
    }
    (pieces, origins)
}
