//! Rules of RFC 7541, one by one, each with the section that has it.

use steppe_h2::hpack::{DecodeError, Decoder, Encoder, FieldLine, Full, Indexing, Out};

use crate::sink::{Pair, Sink, entries};
use crate::support::{decode, encode, line, unhex};

/// Decodes a block with a new decoder.
fn read(hex: &str) -> Result<Vec<(Pair, Indexing)>, DecodeError> {
    decode(&mut Decoder::new(4096), &unhex(hex))
}

fn pair(name: &str, value: &str) -> Pair {
    (name.into(), value.into())
}

fn pairs(lines: &[(&str, &str)]) -> Vec<Pair> {
    lines
        .iter()
        .map(|(name, value)| pair(name, value))
        .collect()
}

/// §2.3.3
#[test]
fn an_index_is_that_of_an_entry() {
    for (block, index) in [
        ("80", 0),
        ("be", 62),
        // As the name of a literal, of each kind.
        ("7e0161", 62),
        ("0f2f0161", 62),
        ("1f2f0161", 62),
        // One entry, and the index behind it.
        ("4001610162bf", 63),
        ("ff80ffffff07", i32::MAX as u32),
    ] {
        assert_eq!(read(block), Err(DecodeError::Index(index)), "{block}");
    }
    let lines = read("bd4001610162be").expect("valid");
    assert_eq!(lines[0].0, pair("www-authenticate", ""));
    assert_eq!(lines[2].0, pair("a", "b"));
}

/// §5.1
#[test]
fn an_integer_has_a_limit() {
    let max = i32::MAX as u32;
    // An index, a length of a name, a length of a value and a size.
    for block in [
        "ffffffffff7f",
        "407fffffffff7f",
        "0401617fffffffff7f",
        "3fffffffff7f",
    ] {
        assert_eq!(read(block), Err(DecodeError::Integer(max)), "{block}");
    }
}

/// §5.2
#[test]
fn padding_is_the_beginning_of_eos() {
    // "0" has the code 00000, "a" 00011.
    assert_eq!(read("0081078107").expect("valid")[0].0, pair("0", "0"));
    for (block, error) in [
        // A zero in the padding.
        ("00810681ff", DecodeError::Padding),
        ("00810081ff", DecodeError::Padding),
        // Of eight bits, and of more.
        ("008207ff0161", DecodeError::Padding),
        ("008307ffff0161", DecodeError::Padding),
        ("0081ff0161", DecodeError::Padding),
        // Part of a code that is longer than padding.
        ("0083fffffe0161", DecodeError::Padding),
        // EOS alone, and behind a symbol.
        ("0084fffffffc0161", DecodeError::EndOfString),
        ("0084ffffffff0161", DecodeError::EndOfString),
        ("008507ffffffff0161", DecodeError::EndOfString),
        // The value is looked at as well.
        ("0001618106", DecodeError::Padding),
    ] {
        assert_eq!(read(block), Err(error), "{block}");
    }
}

/// §5.2: an empty string, in both codes.
#[test]
fn a_string_may_be_empty() {
    let lines = read("000000408080").expect("valid");
    assert_eq!(lines[0], (pair("", ""), Indexing::Without));
    assert_eq!(lines[1], (pair("", ""), Indexing::Incremental));
}

/// §6.1 to §6.3
#[test]
fn the_indexing_reaches_the_sink() {
    let lines = read("82 4001610162 0001610162 1001610162 be");
    let indexing: Vec<_> = lines.expect("valid").iter().map(|(_, of)| *of).collect();
    let expected = [
        Indexing::Indexed,
        Indexing::Incremental,
        Indexing::Without,
        Indexing::Never,
        Indexing::Indexed,
    ];
    assert_eq!(indexing, expected);
}

/// RFC 9113 §4.3
#[test]
fn a_block_ends_with_a_field_line() {
    let block = unhex("3fe11f824088f2b2016d1055ff7f0162108107810704026162bd");
    let representations = [3, 4, 16, 21, 25, 26];
    let ends: Vec<usize> = (0..=block.len())
        .filter(|end| {
            let mut decoder = Decoder::new(4096);
            let read = decoder.decode(&block[..*end], &mut Sink::new());
            read.expect("valid so far");
            let end = decoder.end();
            assert!(matches!(end, Ok(()) | Err(DecodeError::Truncated)));
            end.is_ok()
        })
        .collect();
    assert_eq!(ends, [&[0], &representations[..]].concat());
}

/// §4.2 and §6.3
#[test]
fn updates_stand_first_and_below_what_is_announced() {
    let mut decoder = Decoder::new(4096);
    let too_large = DecodeError::UpdateTooLarge {
        size: 4097,
        max: 4096,
    };
    assert_eq!(decode(&mut decoder, &unhex("3fe21f")), Err(too_large));
    assert_eq!(read("8220"), Err(DecodeError::UpdateLate));
    assert_eq!(read("203f4182").map(|lines| lines.len()), Ok(1));
    // A third one, in whichever order.
    for block in ["203f413f45", "20202082", "3fe11f2020"] {
        assert_eq!(read(block), Err(DecodeError::TooManyUpdates), "{block}");
    }
    // A block of updates alone, and one more after it.
    let mut decoder = Decoder::new(4096);
    for (block, size_max) in [("203f45", 100), ("20", 0), ("3fe11f", 4096)] {
        assert_eq!(decode(&mut decoder, &unhex(block)), Ok(vec![]));
        assert_eq!(decoder.table().size_max(), size_max);
    }
}

/// §4.2
#[test]
fn an_update_is_due_when_less_is_announced() {
    let fresh = || {
        let mut decoder = Decoder::new(4096);
        let inserted = decode(&mut decoder, &unhex("4001610162"));
        assert_eq!(inserted.expect("valid").len(), 1);
        decoder.set_table_bytes_max(64);
        decoder
    };
    for block in ["82", "be", "4001610162", ""] {
        let read = decode(&mut fresh(), &unhex(block));
        assert_eq!(read, Err(DecodeError::UpdateMissing), "{block}");
    }
    let mut decoder = fresh();
    assert_eq!(
        decode(&mut decoder, &unhex("2082")).map(|lines| lines.len()),
        Ok(1)
    );
    assert!(decoder.table().is_empty());
    let mut decoder = fresh();
    assert_eq!(
        decode(&mut decoder, &unhex("3f21be")).map(|lines| lines.len()),
        Ok(1)
    );
    // More is announced, and nothing is due.
    decoder.set_table_bytes_max(65_536);
    assert_eq!(
        decode(&mut decoder, &unhex("be")).map(|lines| lines.len()),
        Ok(1)
    );
    assert_eq!(
        decode(&mut decoder, &unhex("3fe1ff0382")).map(|lines| lines.len()),
        Ok(1)
    );
    assert_eq!(decoder.table().size_max(), 65_536);
}

/// RFC 9113 §6.5.2: the peer uses 4,096 bytes until it says otherwise.
#[test]
fn a_table_begins_with_4096_bytes() {
    assert_eq!(Decoder::new(65_536).table().size_max(), 4096);
    assert_eq!(Encoder::new(65_536).table().size_max(), 4096);
}

/// §4.3
#[test]
fn the_oldest_entries_are_evicted_first() {
    let mut decoder = Decoder::new(4096);
    // Three entries of 34 bytes in a table of 102, and a fourth.
    let block = "3f47 4001610131 4001620132 4001630133 4001640134";
    decode(&mut decoder, &unhex(block)).expect("valid");
    let left = pairs(&[("d", "4"), ("c", "3"), ("b", "2")]);
    assert_eq!(entries(decoder.table()), left);
    // Room for two and a half.
    decode(&mut decoder, &unhex("3f38")).expect("valid");
    assert_eq!(entries(decoder.table()), pairs(&[("d", "4"), ("c", "3")]));
}

/// §4.4
#[test]
fn a_new_entry_has_the_name_of_one_that_it_evicts() {
    let mut decoder = Decoder::new(4096);
    // The name has 40 bytes, so there is room for one such entry.
    let name = "6e".repeat(40);
    let block = format!("3f45 4028{name}0131 7e0132 7e0133");
    let lines = decode(&mut decoder, &unhex(&block)).expect("valid");
    let name = "n".repeat(40);
    let of = |value| pair(&name, value);
    let read: Vec<Pair> = lines.into_iter().map(|(pair, _)| pair).collect();
    assert_eq!(read, [of("1"), of("2"), of("3")]);
    assert_eq!(entries(decoder.table()), [of("3")]);
}

/// §4.4
#[test]
fn an_entry_larger_than_the_table_empties_it() {
    let mut decoder = Decoder::new(4096);
    let block = format!("3f17 4001610131 4016{}0131", "6e".repeat(22));
    assert_eq!(
        decode(&mut decoder, &unhex(&block)).map(|lines| lines.len()),
        Ok(2)
    );
    assert_eq!((decoder.table().len(), decoder.table().size()), (0, 0));
}

/// A sink without room.
fn read_into_nothing(decoder: &mut Decoder, hex: &str) -> (Result<(), DecodeError>, Vec<usize>) {
    let mut sink = Sink::limited(1, 0);
    let read = decoder.decode(&unhex(hex), &mut sink);
    assert!(sink.lines.is_empty());
    (read, sink.lost)
}

#[test]
fn a_field_line_without_room_is_counted() {
    let mut decoder = Decoder::new(4096);
    decode(&mut decoder, &unhex("4001610162")).expect("valid");
    for (block, bytes) in [
        ("82", 10),
        ("be", 2),
        ("00016103626364", 4),
        ("10016103626364", 4),
        // Both in the Huffman code, and a value alone.
        ("00810782003f", 3),
        ("048107", 6),
    ] {
        let (read, lost) = read_into_nothing(&mut decoder, block);
        assert_eq!((read, lost), (Ok(()), vec![bytes]), "{block}");
        assert_eq!(decoder.end(), Ok(()));
    }
    assert_eq!(entries(decoder.table()), [pair("a", "b")]);
}

#[test]
fn room_of_no_bytes_is_no_room() {
    for block in ["82", "0001610162", "0081078107"] {
        let mut sink = Sink::limited(0, 1);
        let read = Decoder::new(4096).decode(&unhex(block), &mut sink);
        assert_eq!((read, sink.lost.len()), (Ok(()), 1));
    }
}

/// Padding needs no room: a sink that is exactly full keeps the field line.
#[test]
fn a_field_line_of_as_many_bytes_as_there_is_room_is_kept() {
    // "0" and "00", with three bits of padding and six.
    for piece in 1..4 {
        let mut sink = Sink::limited(piece, 3);
        let mut decoder = Decoder::new(4096);
        decoder
            .decode(&unhex("008107 82003f"), &mut sink)
            .expect("valid");
        assert_eq!(sink.lines, [(pair("0", "00"), Indexing::Without)]);
    }
}

#[test]
fn an_entry_without_room_is_lost_unless_it_empties_the_table() {
    let mut decoder = Decoder::new(4096);
    let (read, lost) = read_into_nothing(&mut decoder, "4001610162");
    assert_eq!((read, lost), (Err(DecodeError::Lost), vec![2]));
    let mut decoder = Decoder::new(4096);
    decode(&mut decoder, &unhex("3f034001610162")).expect("valid");
    assert_eq!(decoder.table().len(), 1);
    // 34 bytes fit and 35 don't.
    let (read, lost) = read_into_nothing(&mut decoder, "400161026262");
    assert_eq!((read, lost), (Ok(()), vec![3]));
    assert!(decoder.table().is_empty());
    let (read, _) = read_into_nothing(&mut decoder, "4001610162");
    assert_eq!(read, Err(DecodeError::Lost));
}

/// §5.2: the shorter form is sent.
#[test]
fn a_string_is_sent_in_its_shorter_form() {
    let mut encoder = Encoder::new(4096);
    // Eight bits a byte are no gain.
    assert_eq!(
        encode(&mut encoder, &[line("&&", "&&")]),
        unhex("000226260226 26")
    );
    assert_eq!(encode(&mut encoder, &[line("00", "")]), unhex("0002303000"));
    assert_eq!(
        encode(&mut encoder, &[line("00000", "0")]),
        unhex("0084000000 7f0130")
    );
}

#[test]
fn names_are_sent_in_lower_case() {
    let mut encoder = Encoder::new(4096);
    let long = "X-Y".repeat(40);
    let lines = [line("Accept", ""), line("X-Y", "A"), line(&long, "A")];
    let read = decode(&mut Decoder::new(4096), &encode(&mut encoder, &lines)).expect("valid");
    let names: Vec<&[u8]> = read.iter().map(|((name, _), _)| &name[..]).collect();
    assert_eq!(names, [b"accept", &b"x-y"[..], "x-y".repeat(40).as_bytes()]);
}

/// The blocks of an encoder, one field line in each.
fn indexings(encoder: &mut Encoder, lines: &[FieldLine<'_>]) -> Vec<Indexing> {
    let mut decoder = Decoder::new(4096);
    let mut indexings = Vec::new();
    for line in lines {
        let block = encode(encoder, std::slice::from_ref(line));
        let read = decode(&mut decoder, &block).expect("valid");
        assert_eq!(read.len(), 1);
        indexings.push(read[0].1);
    }
    indexings
}

#[test]
fn what_repeats_becomes_an_entry() {
    use Indexing::{Incremental, Indexed, Without};
    let same = [line("User-Agent", "a"); 4];
    let indexing = indexings(&mut Encoder::new(4096), &same);
    assert_eq!(indexing, [Without, Incremental, Indexed, Indexed]);
    let mixed = [
        line("x", "1"),
        line("x", "2"),
        line("x", "1"),
        line("x", "2"),
        line("x", "2"),
    ];
    let indexing = indexings(&mut Encoder::new(4096), &mixed);
    assert_eq!(
        indexing,
        [Without, Without, Incremental, Incremental, Indexed]
    );
    // Other names, the same value; and what would be the same if both were one string.
    let others = [
        line("x", "yz"),
        line("xy", "z"),
        line("xyz", ""),
        line("", "xyz"),
    ];
    assert_eq!(indexings(&mut Encoder::new(4096), &others), [Without; 4]);
}

#[test]
fn what_varies_becomes_no_entry() {
    for name in [
        ":path",
        "content-length",
        "ETag",
        "location",
        "last-modified",
    ] {
        let same = [line(name, "1234567"); 3];
        assert_eq!(
            indexings(&mut Encoder::new(4096), &same),
            [Indexing::Without; 3]
        );
    }
    // But that of the static table.
    assert_eq!(
        indexings(&mut Encoder::new(4096), &[line(":path", "/")]),
        [Indexing::Indexed]
    );
    // Larger than half of the table.
    let large = "a".repeat(2020);
    let same = [line("x", &large); 3];
    assert_eq!(
        indexings(&mut Encoder::new(4096), &same),
        [Indexing::Without; 3]
    );
    assert_eq!(
        indexings(&mut Encoder::new(4096), &[line("x", &large[5..]); 3])[2],
        Indexing::Indexed
    );
}

/// §7.1.3
#[test]
fn secrets_are_never_indexed() {
    for name in [
        "authorization",
        "Proxy-Authorization",
        "cookie",
        "set-cookie",
    ] {
        let same = [line(name, "secret"); 3];
        assert_eq!(
            indexings(&mut Encoder::new(4096), &same),
            [Indexing::Never; 3]
        );
    }
    let mut never = line("accept-encoding", "gzip, deflate");
    never.indexing = Indexing::Never;
    let mut long = line(
        "X-A-Name-That-Is-Longer-Than-Any-That-Anybody-Has-Registered-Until-Now",
        "",
    );
    long.indexing = Indexing::Never;
    let lines = [never, never, never, long];
    assert_eq!(
        indexings(&mut Encoder::new(4096), &lines),
        [Indexing::Never; 4]
    );
}

/// §4.2
#[test]
fn updates_tell_the_least_and_the_last_size() {
    let mut encoder = Encoder::new(65_536);
    let mut begins = |sizes: &[u32], begin: &str| {
        sizes
            .iter()
            .for_each(|size| encoder.set_table_bytes_max(*size));
        assert_eq!(encode(&mut encoder, &[]), unhex(begin), "{sizes:?}");
        assert_eq!(encode(&mut encoder, &[]), b"", "they are told once");
    };
    begins(&[4096], "");
    begins(&[8192], "3fe13f");
    begins(&[100, 0, 200], "203fa901");
    begins(&[200, 200], "");
    begins(&[30], "3e");
    begins(&[20, 4096, 100_000, 65_536, 4096], "343fe11f");
    begins(&[100_000], "3fe1ff03");
    assert_eq!(encode(&mut Encoder::new(100), &[]), unhex("3f45"));
    assert_eq!(encode(&mut Encoder::new(0), &[]), unhex("20"));
}

/// The peer has evicted what the encoder did when the size fell and rose again.
#[test]
fn an_update_to_less_evicts() {
    let mut encoder = Encoder::new(4096);
    let mut decoder = Decoder::new(4096);
    let mut send = |encoder: &mut Encoder| {
        let block = encode(encoder, &[line("x", "1"), line("y", "2")]);
        decode(&mut decoder, &block).expect("valid");
        entries(decoder.table()).len()
    };
    assert_eq!([send(&mut encoder), send(&mut encoder)], [0, 2]);
    encoder.set_table_bytes_max(40);
    encoder.set_table_bytes_max(4096);
    // "y" is left and "x" comes again.
    assert_eq!((send(&mut encoder), encoder.table().len()), (2, 2));
}

#[test]
fn a_table_of_nothing_takes_no_memory() {
    let mut encoder = Encoder::new(0);
    let lines = [line("x", "1"), line("x", "1"), line("x", "1")];
    let block = encode(&mut encoder, &lines);
    let mut decoder = Decoder::new(0);
    assert_eq!(decode(&mut decoder, &block).map(|lines| lines.len()), Ok(3));
    assert_eq!((encoder.memory_bytes(), decoder.memory_bytes()), (0, 0));
    assert_eq!(
        (Encoder::memory_bytes_max(0), Decoder::memory_bytes_max(0)),
        (0, 0)
    );
    assert!((4096..6000).contains(&Decoder::memory_bytes_max(4096)));
    assert!((4096..7200).contains(&Encoder::memory_bytes_max(4096)));
}

#[test]
fn a_short_output_is_left_as_it_was() {
    let mut encoder = Encoder::new(4096);
    let same = line("x-name", "value");
    encode(&mut encoder, &[same]);
    let needed = Encoder::field_bytes_max(6, 5);
    for short in 0..needed {
        let mut buffer = vec![0; short];
        let mut out = Out::new(&mut buffer);
        assert_eq!(encoder.field(&same, &mut out), Err(Full));
        assert_eq!(out.written(), b"");
        assert!(encoder.table().is_empty());
    }
    let mut buffer = vec![0; needed];
    encoder
        .field(&same, &mut Out::new(&mut buffer))
        .expect("room");
    assert_eq!(encoder.table().len(), 1);
    encoder.set_table_bytes_max(0);
    let mut buffer = vec![0; Encoder::BEGIN_BYTES_MAX];
    assert_eq!(encoder.begin(&mut Out::new(&mut buffer[1..])), Err(Full));
    assert_eq!(encoder.table().len(), 1);
    assert_eq!(encoder.begin(&mut Out::new(&mut buffer)), Ok(()));
    assert_eq!((buffer[0], encoder.table().len()), (0x20, 0));
}
