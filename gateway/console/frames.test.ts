import { expect } from 'chai'
import fc from 'fast-check'
import { readOwnFrame, readTerminalFrame, type ClientFrame } from './frames.js'

const verbs = {
  input: 'are input of the user',
  resize: 'resize the terminal',
  ack: 'acknowledge output',
  close: 'close the console',
  nothing: 'are ignored',
  bad: 'are invalid',
} as const
const input = (text: string): ClientFrame => ({ type: 'input', bytes: Buffer.from(text) })

describe('frames of clients', () => {
  for (const [text, own, terminal] of [
    [
      '{"type":"resize","cols":80,"rows":24}',
      { type: 'resize', columns: 80, rows: 24 },
      { type: 'resize', columns: 80, rows: 24 },
    ],
    ['{"type":"resize","cols":0,"rows":24}', { type: 'bad' }, { type: 'nothing' }],
    ['{"type":"resize","cols":80.5,"rows":24}', { type: 'bad' }, { type: 'nothing' }],
    ['{"type":"resize","cols":80,"rows":1e9}', { type: 'bad' }, { type: 'nothing' }],
    ['{"type":"ack","bytes":5}', { type: 'ack', bytes: 5 }, input('{"type":"ack","bytes":5}')],
    ['{"type":"ack","bytes":-5}', { type: 'bad' }, input('{"type":"ack","bytes":-5}')],
    ['{"type":"close"}', { type: 'close' }, input('{"type":"close"}')],
    ['{"type":"input","data":"x"}', { type: 'bad' }, input('x')],
    ['{"type":"stdin","data":"中"}', { type: 'bad' }, input('中')],
    ['{"type":"data","data":""}', { type: 'bad' }, input('')],
    ['{"type":"data","data":5}', { type: 'bad' }, input('{"type":"data","data":5}')],
    ['[1]', { type: 'bad' }, input('[1]')],
    ['{', { type: 'bad' }, input('{')],
    ['ls\r', { type: 'bad' }, input('ls\r')],
    ['', { type: 'bad' }, input('')],
  ] as [string, ClientFrame, ClientFrame][])
    it(`${verbs[own.type]} with berth.console.v1, and ${verbs[terminal.type]} with other protocols: ${text || '(empty)'}`, () => {
      expect(readOwnFrame(Buffer.from(text), false)).to.deep.equal(own)
      expect(readTerminalFrame(Buffer.from(text), false)).to.deep.equal(terminal)
    })

  it('are input of the user if they are binary, and never cause an exception', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.json(), (bytes, json) => {
        const data = Buffer.from(bytes)
        for (const read of [readOwnFrame, readTerminalFrame]) {
          expect(read(data, true)).to.deep.equal({ type: 'input', bytes: data })
          read(data, false)
          read(Buffer.from(json), false)
        }
      }),
    )
  })
})
