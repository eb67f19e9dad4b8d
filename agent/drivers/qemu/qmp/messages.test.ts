import { expect } from 'chai'
import { Lines, MalformedMessage, parseQmpMessage } from './messages.js'

describe('the parser of QMP messages (QEMU machine protocol)', () => {
  for (const [name, line, message] of [
    ['a greeting', '{"QMP":{"version":{}}}', { kind: 'greeting' }],
    ['an answer', '{"return":{"a":1},"id":3}', { kind: 'answer', id: 3, value: { a: 1 } }],
    ['an answer without an id', '{"return":{}}', { kind: 'answer', id: NaN, value: {} }],
    [
      'an error, with its text on one line',
      '{"error":{"class":"GenericError","desc":"no\\nway"},"id":4}',
      { kind: 'refusal', id: 4, class: 'GenericError', reason: 'no way' },
    ],
    ['an error without a text', '{"error":{}}', { kind: 'refusal', id: NaN, class: '', reason: '' }],
    ['an event', '{"event":"STOP","timestamp":{}}', { kind: 'event', name: 'STOP', data: {} }],
    [
      'an event with data',
      '{"event":"SHUTDOWN","data":{"guest":true}}',
      { kind: 'event', name: 'SHUTDOWN', data: { guest: true } },
    ],
  ] as const)
    it(`parses ${name}`, () => expect(parseQmpMessage(line)).to.deep.equal(message))

  for (const line of ['', '{', 'null', '[]', '{}', '"x"', '{"error":1}', '{"event":1}', '{"id":1}'])
    it(`refuses ${line === '' ? 'an empty line' : `the line ${line}`}`, () =>
      expect(() => parseQmpMessage(line)).to.throw(MalformedMessage))
})

describe('the splitter of a stream into lines', () => {
  it('joins the parts of a line', () => {
    const lines = new Lines()
    expect(lines.take(Buffer.from('a'))).to.deep.equal([])
    expect(lines.take(Buffer.from('b\nc\n\nd'))).to.deep.equal(['ab', 'c', ''])
    expect(lines.take(Buffer.from('\n'))).to.deep.equal(['d'])
  })

  it('accepts any number of lines, each up to the maximum length', () => {
    const lines = new Lines(3)
    expect(lines.take(Buffer.from('abc\nabc\nab'))).to.deep.equal(['abc', 'abc'])
    expect(lines.take(Buffer.from('c\n'))).to.deep.equal(['abc'])
  })

  for (const chunks of [['abcd'], ['abc', 'd'], ['ab', 'cd\n'], ['abcd\n']])
    it(`refuses a line that is too long if it arrives in the chunks ${JSON.stringify(chunks)}`, () => {
      const lines = new Lines(3)
      expect(() => chunks.forEach((chunk) => lines.take(Buffer.from(chunk)))).to.throw(MalformedMessage)
    })
})
