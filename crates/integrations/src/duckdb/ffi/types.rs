//! Types of columns, as far as reading values needs them.

use super::engine::take_c_text;
use super::symbols::{Handle, Symbols};

/// Type of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DuckdbType {
    Bool,
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    U128,
    F32,
    F64,
    /// Days.
    Date,
    /// Time since 1970 in units of `per_second` per second, with or without a time zone.
    Timestamp {
        per_second: i64,
        has_zone: bool,
    },
    /// Time since midnight in units of `per_second` per second.
    Time {
        per_second: i64,
    },
    TimeZone,
    Interval,
    Uuid,
    Text,
    /// Text that is JSON.
    Json,
    Blob,
    Bit,
    Null,
    Decimal {
        scale: u8,
        stored: Box<Self>,
    },
    Enum {
        stored: Box<Self>,
        labels: Vec<String>,
    },
    List(Box<Self>),
    Array(Box<Self>, usize),
    Struct(Vec<(String, Self)>),
    Map(Box<Self>, Box<Self>),
    Union(Vec<Self>),
    /// An unsupported type, by its number.
    Other(u32),
}

impl DuckdbType {
    /// Reads a type and destroys its handle.
    ///
    /// # Safety
    /// The handle must be a logical type that the caller owns.
    pub(super) unsafe fn from_owned_handle(api: &Symbols, mut handle: Handle) -> Self {
        // SAFETY: guaranteed by the caller; the handle is not used after it is destroyed.
        unsafe {
            let read = Self::from_handle(api, handle);
            (api.destroy_logical_type)(&raw mut handle);
            read
        }
    }

    /// # Safety
    /// As above; the caller keeps the handle.
    unsafe fn from_handle(api: &Symbols, type_handle: Handle) -> Self {
        // SAFETY: guaranteed by the caller; each function is only called for a type that it supports.
        let id = unsafe { (api.get_type_id)(type_handle) };
        if let Some(plain) = Self::from_plain_id(id) {
            // SAFETY: as above; the alias is owned here.
            let alias = unsafe { take_c_text(api, (api.logical_type_get_alias)(type_handle)) };
            let is_json = plain == Self::Text && alias == "JSON";
            return if is_json { Self::Json } else { plain };
        }
        // SAFETY: as above.
        unsafe {
            match id {
                19 => Self::Decimal {
                    scale: (api.decimal_scale)(type_handle),
                    stored: Box::new(Self::stored_type((api.decimal_internal_type)(type_handle))),
                },
                23 => Self::Enum {
                    stored: Box::new(Self::stored_type((api.enum_internal_type)(type_handle))),
                    labels: (0..u64::from((api.enum_dictionary_size)(type_handle)))
                        .map(|index| take_c_text(api, (api.enum_dictionary_value)(type_handle, index)))
                        .collect(),
                },
                24 => Self::List(Box::new(Self::from_owned_handle(
                    api,
                    (api.list_type_child_type)(type_handle),
                ))),
                25 => Self::Struct(
                    (0..(api.struct_type_child_count)(type_handle))
                        .map(|index| {
                            let name = take_c_text(api, (api.struct_type_child_name)(type_handle, index));
                            (
                                name,
                                Self::from_owned_handle(api, (api.struct_type_child_type)(type_handle, index)),
                            )
                        })
                        .collect(),
                ),
                26 => Self::Map(
                    Box::new(Self::from_owned_handle(api, (api.map_type_key_type)(type_handle))),
                    Box::new(Self::from_owned_handle(api, (api.map_type_value_type)(type_handle))),
                ),
                28 => Self::Union(
                    (0..(api.union_type_member_count)(type_handle))
                        .map(|index| Self::from_owned_handle(api, (api.union_type_member_type)(type_handle, index)))
                        .collect(),
                ),
                33 => Self::Array(
                    Box::new(Self::from_owned_handle(api, (api.array_type_child_type)(type_handle))),
                    usize::try_from((api.array_type_array_size)(type_handle)).unwrap_or(0),
                ),
                other => Self::Other(other),
            }
        }
    }

    /// Types that are fully described by their number.
    fn from_plain_id(id: u32) -> Option<Self> {
        let timestamp = |per_second, has_zone| Self::Timestamp { per_second, has_zone };
        Some(match id {
            1 => Self::Bool,
            2 => Self::I8,
            3 => Self::I16,
            4 => Self::I32,
            5 => Self::I64,
            6 => Self::U8,
            7 => Self::U16,
            8 => Self::U32,
            9 => Self::U64,
            10 => Self::F32,
            11 => Self::F64,
            12 => timestamp(1_000_000, false),
            13 => Self::Date,
            14 => Self::Time { per_second: 1_000_000 },
            15 => Self::Interval,
            16 => Self::I128,
            17 => Self::Text,
            18 => Self::Blob,
            20 => timestamp(1, false),
            21 => timestamp(1_000, false),
            22 => timestamp(1_000_000_000, false),
            27 => Self::Uuid,
            29 => Self::Bit,
            30 => Self::TimeZone,
            31 => timestamp(1_000_000, true),
            32 => Self::U128,
            36 => Self::Null,
            39 => Self::Time {
                per_second: 1_000_000_000,
            },
            _ => return None,
        })
    }

    fn stored_type(id: u32) -> Self {
        Self::from_plain_id(id).unwrap_or(Self::Other(id))
    }

    /// The first unsupported part of this type, if there is one.
    pub(super) fn unreadable_id(&self) -> Option<u32> {
        match self {
            Self::Other(id) => Some(*id),
            Self::Decimal { stored, .. } | Self::Enum { stored, .. } => stored.unreadable_id(),
            Self::List(child) | Self::Array(child, _) => child.unreadable_id(),
            Self::Struct(fields) => fields.iter().find_map(|(_, field)| field.unreadable_id()),
            Self::Map(key, value) => key.unreadable_id().or_else(|| value.unreadable_id()),
            Self::Union(members) => members.iter().find_map(Self::unreadable_id),
            _ => None,
        }
    }
}
