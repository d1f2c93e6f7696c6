//! Reads the values of a vector as JSON.

use serde_json::{Map, Value};

use super::symbols::{Handle, Symbols};
use super::types::DuckdbType;
use crate::duckdb::text;

/// A vector to read.
pub(super) struct VectorView<'t> {
    column_type: &'t DuckdbType,
    data: *const u8,
    /// One bit per row; null if every row has a value.
    validity: *const u64,
    children: Vec<VectorView<'t>>,
}

/// A text or blob in a vector: short ones are stored inline, long ones elsewhere.
#[repr(C)]
#[derive(Clone, Copy)]
struct StringCell {
    length: u32,
    prefix: [u8; 4],
    tail: [u8; 8],
}

/// Maximum length of an inline text.
const INLINE_BYTES_MAX: u32 = 12;

#[repr(C)]
#[derive(Clone, Copy)]
struct ListEntry {
    offset: u64,
    length: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct HugeInt {
    lower: u64,
    upper: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RawInterval {
    months: i32,
    days: i32,
    micros: i64,
}

impl<'t> VectorView<'t> {
    /// # Safety
    /// The vector must be of this type, and must outlive the view.
    pub(super) unsafe fn new(api: &Symbols, vector: Handle, column_type: &'t DuckdbType) -> Self {
        // SAFETY: guaranteed by the caller; each child is only read from a vector that has it.
        unsafe {
            let fields = |types: &[&'t DuckdbType], from: u64| -> Vec<Self> {
                let numbered = types.iter().zip(from..);
                let child = |(column_type, index): (&&'t DuckdbType, u64)| {
                    Self::new(api, (api.struct_vector_get_child)(vector, index), column_type)
                };
                numbered.map(child).collect()
            };
            let children = match column_type {
                DuckdbType::List(child) => {
                    vec![Self::new(api, (api.list_vector_get_child)(vector), child)]
                }
                DuckdbType::Array(child, _) => {
                    vec![Self::new(api, (api.array_vector_get_child)(vector), child)]
                }
                DuckdbType::Struct(types) => {
                    let types: Vec<&DuckdbType> = types.iter().map(|(_, column_type)| column_type).collect();
                    fields(&types, 0)
                }
                DuckdbType::Map(key, value) => {
                    // A map is a list of pairs.
                    let pairs = (api.list_vector_get_child)(vector);
                    let child =
                        |index, column_type| Self::new(api, (api.struct_vector_get_child)(pairs, index), column_type);
                    vec![child(0, key), child(1, value)]
                }
                DuckdbType::Union(types) => {
                    let mut all = vec![&DuckdbType::U8];
                    all.extend(types);
                    fields(&all, 0)
                }
                _ => Vec::new(),
            };
            Self {
                column_type,
                data: (api.vector_get_data)(vector).cast::<u8>().cast_const(),
                validity: (api.vector_get_validity)(vector).cast_const(),
                children,
            }
        }
    }

    /// # Safety
    /// The vector must be alive and have this row.
    pub(super) unsafe fn value(&self, row: usize) -> Value {
        // SAFETY: guaranteed by the caller; every read uses the type of the vector.
        unsafe {
            if !self.is_valid(row) {
                return Value::Null;
            }
            match self.column_type {
                DuckdbType::Bool => Value::Bool(self.read_at::<u8>(row) != 0),
                DuckdbType::F32 => text::float(self.shortest_double(row)),
                DuckdbType::F64 => text::float(self.read_at(row)),
                DuckdbType::Date => text::date(self.read_at(row)).into(),
                DuckdbType::Timestamp { per_second, has_zone } => {
                    text::timestamp(self.read_at(row), *per_second, *has_zone).into()
                }
                DuckdbType::Time { per_second } => tools::sql::clock_text(self.read_at(row), *per_second).into(),
                DuckdbType::TimeZone => text::time_with_zone(self.read_at(row)).into(),
                DuckdbType::Interval => {
                    let RawInterval { months, days, micros } = self.read_at(row);
                    text::interval(months, days, micros).into()
                }
                DuckdbType::Uuid => text::uuid(self.huge_int(row)).into(),
                DuckdbType::Text => Value::String(String::from_utf8_lossy(self.string_bytes(row)).into_owned()),
                DuckdbType::Json => text::json(self.string_bytes(row)),
                DuckdbType::Blob => text::blob(self.string_bytes(row)).into(),
                DuckdbType::Bit => text::bits(self.string_bytes(row)).into(),
                DuckdbType::Decimal { scale, stored } => text::decimal(self.integer(row, stored), *scale),
                DuckdbType::Enum { stored, labels } => {
                    let label = usize::try_from(self.integer(row, stored)).ok();
                    let label = label.and_then(|index| labels.get(index));
                    label.map_or(Value::Null, |label| Value::from(label.as_str()))
                }
                DuckdbType::Null | DuckdbType::Other(_) => Value::Null,
                DuckdbType::List(_)
                | DuckdbType::Array(..)
                | DuckdbType::Struct(_)
                | DuckdbType::Map(..)
                | DuckdbType::Union(_) => self.nested_value(row),
                integer => text::integer(self.integer(row, integer), *integer == DuckdbType::U128),
            }
        }
    }

    /// # Safety
    /// As above.
    unsafe fn nested_value(&self, row: usize) -> Value {
        // SAFETY: guaranteed by the caller; offsets and lengths of entries are inside the child.
        unsafe {
            match self.column_type {
                DuckdbType::List(_) => {
                    let values = self.list_range(row).map(|index| self.children[0].value(index));
                    Value::Array(values.collect())
                }
                DuckdbType::Array(_, size) => {
                    let range = row * size..(row + 1) * size;
                    Value::Array(range.map(|index| self.children[0].value(index)).collect())
                }
                DuckdbType::Struct(fields) => {
                    let named = fields.iter().zip(&self.children);
                    let pair = |((name, _), child): (&(String, DuckdbType), &Self)| (name.clone(), child.value(row));
                    // A struct without names is a tuple.
                    if fields.iter().all(|(name, _)| name.is_empty()) {
                        return Value::Array(named.map(|field| pair(field).1).collect());
                    }
                    Value::Object(named.map(pair).collect())
                }
                DuckdbType::Map(..) => {
                    let mut map = Map::new();
                    for index in self.list_range(row) {
                        let key = match self.children[0].value(index) {
                            Value::String(text) => text,
                            other => other.to_string(),
                        };
                        map.insert(key, self.children[1].value(index));
                    }
                    Value::Object(map)
                }
                _ => {
                    let tag = usize::from(self.children[0].read_at::<u8>(row));
                    let member = self.children.get(tag + 1);
                    member.map_or(Value::Null, |member| member.value(row))
                }
            }
        }
    }

    /// # Safety
    /// As above.
    unsafe fn is_valid(&self, row: usize) -> bool {
        if self.validity.is_null() {
            return true;
        }
        // SAFETY: the mask has a bit for every row.
        let bits = unsafe { *self.validity.add(row / 64) };
        bits >> (row % 64) & 1 == 1
    }

    /// # Safety
    /// As above, and the vector must hold values of this type.
    unsafe fn read_at<T: Copy>(&self, row: usize) -> T {
        // SAFETY: guaranteed by the caller; the library aligns vectors for their type.
        unsafe { self.data.cast::<T>().add(row).read_unaligned() }
    }

    /// Reads an integer of any width.
    ///
    /// # Safety
    /// As above.
    unsafe fn integer(&self, row: usize, stored: &DuckdbType) -> i128 {
        // SAFETY: the caller guarantees that the vector holds values of this type.
        unsafe {
            match stored {
                DuckdbType::I8 => self.read_at::<i8>(row).into(),
                DuckdbType::I16 => self.read_at::<i16>(row).into(),
                DuckdbType::I32 => self.read_at::<i32>(row).into(),
                DuckdbType::I64 => self.read_at::<i64>(row).into(),
                DuckdbType::U8 => self.read_at::<u8>(row).into(),
                DuckdbType::U16 => self.read_at::<u16>(row).into(),
                DuckdbType::U32 => self.read_at::<u32>(row).into(),
                DuckdbType::U64 => self.read_at::<u64>(row).into(),
                _ => self.huge_int(row),
            }
        }
    }

    /// # Safety
    /// As above.
    unsafe fn huge_int(&self, row: usize) -> i128 {
        // SAFETY: as above.
        let HugeInt { lower, upper } = unsafe { self.read_at(row) };
        i128::from(upper) << 64 | i128::from(lower)
    }

    /// Reads a single-precision number as the double with the same shortest digits.
    ///
    /// # Safety
    /// As above.
    unsafe fn shortest_double(&self, row: usize) -> f64 {
        // SAFETY: as above.
        let single: f32 = unsafe { self.read_at(row) };
        single.to_string().parse().unwrap_or_else(|_| single.into())
    }

    /// # Safety
    /// As above.
    unsafe fn list_range(&self, row: usize) -> std::ops::Range<usize> {
        // SAFETY: as above.
        let ListEntry { offset, length } = unsafe { self.read_at(row) };
        let index = |offset: u64| usize::try_from(offset).expect("an offset fits usize");
        index(offset)..index(offset + length)
    }

    /// # Safety
    /// As above.
    unsafe fn string_bytes(&self, row: usize) -> &[u8] {
        // SAFETY: a short text is inside the vector, which outlives this view; the vector also owns long texts.
        unsafe {
            #[expect(clippy::cast_ptr_alignment, reason = "it is read unaligned")]
            let cell_pointer = self.data.cast::<StringCell>().add(row);
            let cell = cell_pointer.read_unaligned();
            let length = cell.length as usize;
            let start = if cell.length <= INLINE_BYTES_MAX {
                cell_pointer.cast::<u8>().add(size_of::<u32>())
            } else {
                usize::from_ne_bytes(cell.tail) as *const u8
            };
            std::slice::from_raw_parts(start, length)
        }
    }
}
