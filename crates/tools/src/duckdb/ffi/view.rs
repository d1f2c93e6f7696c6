//! Reads the values of a vector as JSON.

use serde_json::{Map, Value};

use super::symbols::{Handle, Symbols};
use super::types::Type;
use crate::duckdb::text;

/// A vector to read.
pub(super) struct View<'t> {
    of: &'t Type,
    data: *const u8,
    /// One bit per row; null if every row has a value.
    validity: *const u64,
    children: Vec<View<'t>>,
}

/// A text or blob in a vector: short ones are stored inline, long ones elsewhere.
#[repr(C)]
#[derive(Clone, Copy)]
struct Words {
    length: u32,
    head: [u8; 4],
    rest: [u8; 8],
}

/// Maximum length of an inline text.
const INSIDE_MAX: u32 = 12;

#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    offset: u64,
    length: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Huge {
    lower: u64,
    upper: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Interval {
    months: i32,
    days: i32,
    micros: i64,
}

impl<'t> View<'t> {
    /// # Safety
    /// The vector must be of this type, and must outlive the view.
    pub(super) unsafe fn new(api: &Symbols, vector: Handle, of: &'t Type) -> Self {
        // SAFETY: guaranteed by the caller; each child is only read from a vector that has it.
        unsafe {
            let fields = |types: &[&'t Type], from: u64| -> Vec<Self> {
                let numbered = types.iter().zip(from..);
                let child = |(of, at): (&&'t Type, u64)| {
                    Self::new(api, (api.struct_vector_get_child)(vector, at), of)
                };
                numbered.map(child).collect()
            };
            let children = match of {
                Type::List(child) => {
                    vec![Self::new(api, (api.list_vector_get_child)(vector), child)]
                }
                Type::Array(child, _) => {
                    vec![Self::new(api, (api.array_vector_get_child)(vector), child)]
                }
                Type::Struct(types) => {
                    let types: Vec<&Type> = types.iter().map(|(_, of)| of).collect();
                    fields(&types, 0)
                }
                Type::Map(key, value) => {
                    // A map is a list of pairs.
                    let pairs = (api.list_vector_get_child)(vector);
                    let child =
                        |at, of| Self::new(api, (api.struct_vector_get_child)(pairs, at), of);
                    vec![child(0, key), child(1, value)]
                }
                Type::Union(types) => {
                    let mut all = vec![&Type::U8];
                    all.extend(types);
                    fields(&all, 0)
                }
                _ => Vec::new(),
            };
            Self {
                of,
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
            match self.of {
                Type::Bool => Value::Bool(self.at::<u8>(row) != 0),
                Type::F32 => text::float(self.shortest(row)),
                Type::F64 => text::float(self.at(row)),
                Type::Date => text::date(self.at(row)).into(),
                Type::Timestamp {
                    per_second,
                    has_zone,
                } => text::timestamp(self.at(row), *per_second, *has_zone).into(),
                Type::Time { per_second } => text::time(self.at(row), *per_second).into(),
                Type::TimeZone => text::time_with_zone(self.at(row)).into(),
                Type::Interval => {
                    let Interval {
                        months,
                        days,
                        micros,
                    } = self.at(row);
                    text::interval(months, days, micros).into()
                }
                Type::Uuid => text::uuid(self.huge(row)).into(),
                Type::Text => Value::String(String::from_utf8_lossy(self.words(row)).into_owned()),
                Type::Json => text::json(self.words(row)),
                Type::Blob => text::blob(self.words(row)).into(),
                Type::Bit => text::bits(self.words(row)).into(),
                Type::Decimal { scale, stored } => text::decimal(self.integer(row, stored), *scale),
                Type::Enum { stored, words } => {
                    let word = usize::try_from(self.integer(row, stored)).ok();
                    let word = word.and_then(|at| words.get(at));
                    word.map_or(Value::Null, |word| Value::from(word.as_str()))
                }
                Type::Null | Type::Other(_) => Value::Null,
                Type::List(_)
                | Type::Array(..)
                | Type::Struct(_)
                | Type::Map(..)
                | Type::Union(_) => self.nested(row),
                integer => text::integer(self.integer(row, integer), *integer == Type::U128),
            }
        }
    }

    /// # Safety
    /// As above.
    unsafe fn nested(&self, row: usize) -> Value {
        // SAFETY: guaranteed by the caller; offsets and lengths of entries are inside the child.
        unsafe {
            match self.of {
                Type::List(_) => {
                    let values = self.entry(row).map(|at| self.children[0].value(at));
                    Value::Array(values.collect())
                }
                Type::Array(_, size) => {
                    let range = row * size..(row + 1) * size;
                    Value::Array(range.map(|at| self.children[0].value(at)).collect())
                }
                Type::Struct(fields) => {
                    let named = fields.iter().zip(&self.children);
                    let pair = |((name, _), child): (&(String, Type), &Self)| {
                        (name.clone(), child.value(row))
                    };
                    // A struct without names is a tuple.
                    if fields.iter().all(|(name, _)| name.is_empty()) {
                        return Value::Array(named.map(|field| pair(field).1).collect());
                    }
                    Value::Object(named.map(pair).collect())
                }
                Type::Map(..) => {
                    let mut map = Map::new();
                    for at in self.entry(row) {
                        let key = match self.children[0].value(at) {
                            Value::String(text) => text,
                            other => other.to_string(),
                        };
                        map.insert(key, self.children[1].value(at));
                    }
                    Value::Object(map)
                }
                _ => {
                    let tag = usize::from(self.children[0].at::<u8>(row));
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
        let word = unsafe { *self.validity.add(row / 64) };
        word >> (row % 64) & 1 == 1
    }

    /// # Safety
    /// As above, and the vector must hold values of this type.
    unsafe fn at<T: Copy>(&self, row: usize) -> T {
        // SAFETY: guaranteed by the caller; the library aligns vectors for their type.
        unsafe { self.data.cast::<T>().add(row).read_unaligned() }
    }

    /// Reads an integer of any width.
    ///
    /// # Safety
    /// As above.
    unsafe fn integer(&self, row: usize, stored: &Type) -> i128 {
        // SAFETY: the caller guarantees that the vector holds values of this type.
        unsafe {
            match stored {
                Type::I8 => self.at::<i8>(row).into(),
                Type::I16 => self.at::<i16>(row).into(),
                Type::I32 => self.at::<i32>(row).into(),
                Type::I64 => self.at::<i64>(row).into(),
                Type::U8 => self.at::<u8>(row).into(),
                Type::U16 => self.at::<u16>(row).into(),
                Type::U32 => self.at::<u32>(row).into(),
                Type::U64 => self.at::<u64>(row).into(),
                _ => self.huge(row),
            }
        }
    }

    /// # Safety
    /// As above.
    unsafe fn huge(&self, row: usize) -> i128 {
        // SAFETY: as above.
        let Huge { lower, upper } = unsafe { self.at(row) };
        i128::from(upper) << 64 | i128::from(lower)
    }

    /// Reads a single-precision number as the double with the same shortest digits.
    ///
    /// # Safety
    /// As above.
    unsafe fn shortest(&self, row: usize) -> f64 {
        // SAFETY: as above.
        let single: f32 = unsafe { self.at(row) };
        single.to_string().parse().unwrap_or_else(|_| single.into())
    }

    /// # Safety
    /// As above.
    unsafe fn entry(&self, row: usize) -> std::ops::Range<usize> {
        // SAFETY: as above.
        let Entry { offset, length } = unsafe { self.at(row) };
        let place = |at: u64| usize::try_from(at).expect("an offset fits usize");
        place(offset)..place(offset + length)
    }

    /// # Safety
    /// As above.
    unsafe fn words(&self, row: usize) -> &[u8] {
        // SAFETY: a short text is inside the vector, which outlives this view; the vector also owns long texts.
        unsafe {
            #[expect(clippy::cast_ptr_alignment, reason = "it is read unaligned")]
            let place = self.data.cast::<Words>().add(row);
            let words = place.read_unaligned();
            let length = words.length as usize;
            let begin = if words.length <= INSIDE_MAX {
                place.cast::<u8>().add(size_of::<u32>())
            } else {
                usize::from_ne_bytes(words.rest) as *const u8
            };
            std::slice::from_raw_parts(begin, length)
        }
    }
}
