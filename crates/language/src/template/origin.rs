//! The origin of the pieces of a rendered text: their lines and expressions in the template.

use std::ops::Range;
use std::sync::Arc;

use crate::template::tree::Piece;

/// The origin of a piece.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PieceOrigin {
    /// The lines of the template that the piece comes from, by byte offset in the piece. A line break in the text of a
    /// piece starts the next line of the template, unless another entry follows.
    pub lines: Vec<LineStart>,
    /// The expression of the value, as written.
    pub expression: Option<Arc<str>>,
    /// Whether it is JSON from `tojson` or `to_json`; another language may write it as its own literal.
    pub is_json: bool,
}

/// The line of the template that starts at a byte of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineStart {
    /// The byte offset in the piece.
    pub offset: usize,
    /// The line of the template's own text, from 0.
    pub line: u32,
}

/// A piece with its byte range in the template.
pub(crate) struct WrittenPiece {
    pub(crate) piece: Piece,
    pub(crate) range: Range<usize>,
    /// Whether it is JSON from a filter.
    pub(crate) is_json: bool,
}

/// Joins adjacent texts and determines the lines and expressions of all pieces.
pub(crate) fn join_pieces(written: Vec<WrittenPiece>, source: &str) -> (Vec<Piece>, Vec<PieceOrigin>) {
    let newlines: Vec<usize> = source.match_indices('\n').map(|(offset, _)| offset).collect();
    let mut pieces: Vec<Piece> = Vec::with_capacity(written.len());
    let mut origins: Vec<PieceOrigin> = Vec::with_capacity(written.len());
    for WrittenPiece { piece, range, is_json } in written {
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
