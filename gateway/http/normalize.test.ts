import { expect } from 'chai'
import fc from 'fast-check'
import { Type, type TSchema } from 'typebox'
import { BerthError } from '../../shared/errors.js'
import { compileNormalizer, entries, numeric, restricts, trimmed, zeroIsAbsent } from './normalize.js'
import { oneOf } from './schema.js'

const optional = Type.Optional
const field = (schema: TSchema) => Type.Object({ f: optional(schema) })

/** Normalizes a field. `undefined`: the field counts as absent. */
function read(schema: TSchema, value: unknown, creates = true): unknown {
  return compileNormalizer(field(schema), { creates })({ f: structuredClone(value) })['f']
}

const integer = Type.Integer()
const words = oneOf(['ACCEPT', 'in_out', 'lxc'])
const addresses = Type.Array(Type.String({ format: 'ipv4' }))
const objects = Type.Array(Type.Object({ a: optional(Type.Integer()) }))

describe('the normalization of request values', () => {
  for (const [name, schema, forms] of [
    [
      'integers',
      integer,
      [
        ['512', 512],
        [' 512 ', 512],
        ['0', 0],
        ['-7', -7],
        [5, 5],
        ['110.00', 110],
        ['-7.0', -7],
        ['', undefined],
        [null, undefined],
      ],
    ],
    [
      'numbers',
      Type.Number(),
      [
        ['0.5', 0.5],
        ['2', 2],
        ['', undefined],
        [0.25, 0.25],
      ],
    ],
    [
      'booleans',
      Type.Boolean(),
      [
        ['true', true],
        ['TRUE', true],
        ['1', true],
        [1, true],
        ['false', false],
        ['0', false],
        [0, false],
        ['', undefined],
        [null, undefined],
        [false, false],
      ],
    ],
    [
      'enumeration values',
      words,
      [
        ['accept', 'ACCEPT'],
        [' LXC ', 'lxc'],
        ['In_Out', 'in_out'],
        ['', undefined],
        ['  ', undefined],
      ],
    ],
    [
      'text whose surrounding spaces are ignored',
      Type.String(trimmed),
      [
        [' a b ', 'a b'],
        ['', undefined],
        ['  ', undefined],
      ],
    ],
    [
      'text whose spaces are meaningful',
      Type.String(),
      [
        [' a ', ' a '],
        ['', ''],
        ['  ', '  '],
        [null, undefined],
      ],
    ],
    [
      'text that can be sent as a number',
      Type.String(numeric),
      [
        [22, '22'],
        ['22', '22'],
      ],
    ],
    [
      'lists of text',
      addresses,
      [
        ['192.0.2.1', ['192.0.2.1']],
        ['192.0.2.1, 192.0.2.2,', ['192.0.2.1', '192.0.2.2']],
        ['a\nb', ['a', 'b']],
        [[' 192.0.2.1', '', null], ['192.0.2.1']],
        [[''], []],
        [{}, []],
        ['', undefined],
        [null, undefined],
      ],
    ],
    [
      'lists of objects',
      objects,
      [
        [{}, []],
        [[{ a: '1' }], [{ a: 1 }]],
        [[{ a: null }], [{}]],
        ['', undefined],
      ],
    ],
    [
      'objects',
      Type.Object({ a: optional(integer) }),
      [
        [
          { a: '1', b: '2' },
          { a: 1, b: '2' },
        ],
        [[], undefined],
      ],
    ],
    [
      'fields in which 0 counts as absent',
      Type.Integer(zeroIsAbsent),
      [
        [0, undefined],
        ['0', undefined],
        [1, 1],
      ],
    ],
  ] as [string, TSchema, [unknown, unknown][]][])
    it(`reads the intended value from each accepted form of ${name}`, () => {
      for (const [sent, meant] of forms) expect(read(schema, sent), JSON.stringify(sent)).to.deep.equal(meant)
    })

  for (const [name, schema, values] of [
    [
      'integers',
      integer,
      [
        '0x10',
        '1e3',
        '1.5',
        '+1',
        '--1',
        '-0',
        '007',
        '1 000',
        '1,5',
        '٣',
        '5 MB',
        ' ',
        'NaN',
        '9007199254740993',
        true,
        [],
        {},
        [5],
      ],
    ],
    ['numbers', Type.Number(), ['1e3', '.5', '5.', 'Infinity', '0x1', '00.5', '1_0', true, ' ']],
    ['booleans', Type.Boolean(), ['yes', 'on', 2, '2', -1, 'truee', [], {}, ' ']],
    ['enumeration values', words, ['ACCEPTED', 'lx', 5, true, ['lxc']]],
    ['text', Type.String(trimmed), [5, true, ['a'], {}]],
    ['lists of objects', objects, ['x', 5, [null], [''], { a: 1 }]],
    ['lists of text', addresses, [5, true, { '0': 'x' }]],
  ] as [string, TSchema, unknown[]][])
    it(`does not change values that are invalid for ${name}, so that validation rejects them`, () => {
      for (const value of values) expect(read(schema, value), JSON.stringify(value)).to.deep.equal(value)
    })

  it('reads the accepted spellings of required fields, and keeps required fields that are empty', () => {
    const normalize = compileNormalizer(Type.Object({ a: integer, b: Type.String(trimmed) }), {
      creates: true,
    })
    expect(normalize({ a: '', b: null })).to.deep.equal({ a: '', b: null })
    expect(normalize({ a: '3', b: ' x ' })).to.deep.equal({ a: 3, b: 'x' })
  })

  it('leaves {} unchanged if a change sends {} in place of a list', () =>
    expect(read(objects, {}, false)).to.deep.equal({}))

  describe('for fields that restrict access', () => {
    const list = Type.Array(Type.String(), restricts)
    const listText = Type.String({ ...restricts, ...entries })
    const time = Type.String({ ...restricts, ...trimmed, ...numeric })
    const flag = Type.Boolean(restricts)
    const rules = Type.Array(Type.Object({}), restricts)

    for (const [name, schema, open, explicit] of [
      [
        'a list of text',
        list,
        [null, '', ' ', ',,,', '\n', {}, [''], [null], [' ', ''], [','], [',,,'], [',', ' '], ['\n']],
        [
          [[], []],
          ['a,b', ['a', 'b']],
          [['a', ''], ['a']],
        ],
      ],
      [
        'a text that lists entries',
        listText,
        [null, ' ', ',,,', ' , \n', {}, [], [''], [','], [',,,'], [',', ' '], ['\n']],
        [
          ['', ''],
          ['a', 'a'],
          [['a', 'b'], 'a,b'],
        ],
      ],
      [
        'a time',
        time,
        [null, ' ', '\t'],
        [
          ['', ''],
          [0, '0'],
          [' 2030-01-01 ', '2030-01-01'],
        ],
      ],
      [
        'a boolean',
        flag,
        [null, '', ' '],
        [
          ['0', false],
          [1, true],
        ],
      ],
      [
        'a list of objects',
        rules,
        [null, '', {}, [null], ['']],
        [
          [[], []],
          [[{}], [{}]],
        ],
      ],
    ] as [string, TSchema, unknown[], [unknown, unknown][]][]) {
      it(`ignores ambiguous empty values of ${name} in a change, and rejects such values in a creation`, () => {
        for (const value of open) {
          expect(read(schema, value, false), JSON.stringify(value)).to.equal(undefined)
          expect(() => read(schema, value, true), JSON.stringify(value)).to.throw(BerthError, /^f: must not be empty/)
        }
      })
      it(`accepts unambiguous values of ${name}`, () => {
        for (const [sent, meant] of explicit)
          for (const creates of [true, false])
            expect(read(schema, sent, creates), JSON.stringify(sent)).to.deep.equal(meant)
      })
    }

    it('keeps every list entry that is neither null nor blank', () => {
      const entry = fc.stringMatching(/^[a-z0-9.:]{1,12}$/)
      const noise = fc.constantFrom('', ' ', null)
      fc.assert(
        fc.property(fc.array(fc.oneof(entry, noise), { minLength: 1 }), fc.boolean(), (sent, creates) => {
          const named = sent.filter((one) => one !== null && one.trim() !== '')
          const got = outcome(() => read(list, sent, creates))
          if (named.length > 0) expect(got).to.deep.equal(named)
          else expect(got).to.equal(creates ? 'refused' : undefined)
        }),
      )
    })

    it('returns a text without entries only if the request contains an empty text', () => {
      const part = fc.constantFrom('', ' ', ',', ',,,', '\n', ' , \n', 'a', '10.0.0.1')
      fc.assert(
        fc.property(fc.oneof(part, fc.array(part)), fc.boolean(), (sent, creates) => {
          const got = outcome(() => read(listText, sent, creates))
          if (sent === '' || typeof got !== 'string' || got === 'refused') return
          expect(
            got.split(/[,\n]/).some((entry) => entry.trim() !== ''),
            JSON.stringify(sent),
          ).to.equal(true)
        }),
      )
    })

    it('returns an empty list only for `[]`', () => {
      fc.assert(
        fc.property(fc.jsonValue({ maxDepth: 2 }), fc.boolean(), (value, creates) => {
          if (!isEmpty(outcome(() => read(list, value, creates)))) return
          expect(value).to.deep.equal([])
        }),
        { numRuns: 2000 },
      )
    })
  })

  it('never changes a valid value', () => {
    const schema = Type.Object({
      integer,
      number: optional(Type.Number()),
      flag: optional(Type.Boolean()),
      word: optional(words),
      text: optional(Type.String()),
      list: optional(Type.Array(Type.String(trimmed))),
      nested: optional(Type.Object({ integer: optional(integer) })),
      keys: optional(Type.Array(Type.String(), restricts)),
      name: optional(Type.String(trimmed)),
    })
    const plain = fc.stringMatching(/^\S(.*\S)?$/)
    const entry = plain.filter((text) => /[^\s,]/.test(text)) // a text that consists of commas contains no entry
    const right = fc.record(
      {
        integer: fc.integer(),
        number: fc.double({ noNaN: true }),
        flag: fc.boolean(),
        word: fc.constantFrom('ACCEPT', 'in_out', 'lxc'),
        text: fc.string(),
        name: plain,
        list: fc.array(plain),
        nested: fc.record({ integer: fc.integer() }),
        keys: fc.array(entry),
        unknown: fc.jsonValue(),
      },
      { requiredKeys: ['integer'] },
    )
    fc.assert(
      fc.property(right, fc.boolean(), (value, creates) => {
        expect(compileNormalizer(schema, { creates })(structuredClone(value))).to.deep.equal(value)
      }),
    )
  })

  it('leaves a normalized value unchanged', () => {
    const schema = field(Type.Array(Type.String(trimmed)))
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 3 }), (value) => {
        const once = compileNormalizer(schema, { creates: false })({ f: structuredClone(value) })
        expect(compileNormalizer(schema, { creates: false })(structuredClone(once))).to.deep.equal(once)
      }),
    )
  })
})

function outcome(work: () => unknown): unknown {
  try {
    return work()
  } catch (error) {
    if (error instanceof BerthError) return 'refused'
    throw error
  }
}

function isEmpty(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0
}
