import { expect } from 'chai'
import { EventParser } from './event-parser.js'

describe('the parser of event streams', () => {
  const text = ': comment\nid: 1\nevent: task\ndata: {"a":\ndata: 1}\n\nevent: beat\n\nid: 2\r\ndata:x\r\n\r\n'
  const events = [
    { id: '1', kind: 'task', data: '{"a":\n1}' },
    { id: '2', kind: 'message', data: 'x' },
  ]

  it('finds the events of a complete text', () => expect(new EventParser().push(text)).to.deep.equal(events))

  it('finds the same events if the text arrives character by character', () => {
    const parser = new EventParser()
    expect([...text].flatMap((character) => parser.push(character))).to.deep.equal(events)
  })
})
