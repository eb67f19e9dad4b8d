import { expect } from 'chai'
import fc from 'fast-check'
import { readOwnFrame, readTerminalFrame, type ClientFrame } from './frames.js'

const verbs = {
  input: 'is input of the user',
  resize: 'resizes the terminal',
  ack: 'acknowledges output',
  eof: 'ends the input',
  close: 'closes the console',
  nothing: 'is ignored',
  bad: 'is invalid',
} as const
const input = (text: string): ClientFrame => ({ type: 'input', bytes: Buffer.from(text) })

describe('a frame from a client', () => {
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
    ['{"type":"eof"}', { type: 'eof' }, input('{"type":"eof"}')],
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
    it(`with the content ${text || '(empty)'} ${verbs[own.type]} in the protocol berth.console.v1, and ${verbs[terminal.type]} in other protocols`, () => {
      expect(readOwnFrame(Buffer.from(text), false)).to.deep.equal(own)
      expect(readTerminalFrame(Buffer.from(text), false)).to.deep.equal(terminal)
    })

  it('is input from the user if it is binary, and never causes an exception', () => {
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
