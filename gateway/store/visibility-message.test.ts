import { expect } from 'chai'
import { parseMessage } from './visibility-message.js'

const question = { kind: 'question', from: 'a', round: 3, shown: [{ hostId: 'h', revision: 7 }] }
const answer = { kind: 'answer', from: 'a', round: 3, to: 'b' }
const without = (message: object, field: string): object =>
  Object.fromEntries(Object.entries(message).filter(([name]) => name !== field))

describe('the parser of messages from other gateways', () => {
  for (const message of [{ kind: 'serving', from: 'a' }, { kind: 'leaving', from: 'a' }, question, answer])
    it(`accepts the message “${message.kind}”`, () => {
      expect(parseMessage(JSON.stringify(message))).to.deep.equal(message)
    })

  it('accepts fields that a later version has added', () => {
    const message = { ...answer, added: { by: 'a later version' } }
    expect(parseMessage(JSON.stringify(message))).to.deep.equal(message)
  })

  for (const [name, message] of [
    ['a number', 1],
    ['null', null],
    ['a list', [answer]],
    ['a message of an unknown kind', { ...answer, kind: 'quiz' }],
    ['a message without a kind', without(answer, 'kind')],
    ['a message without a sender', { kind: 'serving' }],
    ['a sender that is a number', { kind: 'serving', from: 1 }],
    ['an empty sender', { kind: 'serving', from: '' }],
    ['a very long sender', { kind: 'serving', from: 'a'.repeat(65) }],
    ['a question without revisions', without(question, 'shown')],
    ['a question without a round number', without(question, 'round')],
    ['a question with a fraction as its round number', { ...question, round: 0.5 }],
    ['a question whose revisions are a text', { ...question, shown: 'all' }],
    ['a question whose list of revisions contains null', { ...question, shown: [null] }],
    ['a question about a revision without a host', { ...question, shown: [{ revision: 7 }] }],
    ['a question about a negative revision', { ...question, shown: [{ hostId: 'h', revision: -1 }] }],
    ['a question about too many revisions', { ...question, shown: Array(10_001).fill({ hostId: 'h', revision: 7 }) }],
    ['an answer without a receiver', without(answer, 'to')],
    ['an answer whose round number is a text', { ...answer, round: '3' }],
    ['a message that is too long', { ...answer, added: 'a'.repeat(1_000_001) }],
  ] as const)
    it(`ignores ${name}`, () => {
      expect(parseMessage(JSON.stringify(message))).to.equal(undefined)
    })

  it('ignores a text that is not JSON', () => {
    expect(parseMessage('{"kind":"serving",')).to.equal(undefined)
  })
})
