import { expect } from 'chai'
import type { Operation } from '../catalog/operation.js'
import { manualPage } from './manual-page.js'
import { escapeRoff, proseRoff } from './roff.js'

const operation: Operation = {
  noun: 'guest',
  verb: 'create',
  method: 'POST',
  path: '/containers',
  summary: 'Creates a guest. See `berth image list`',
  arguments: [{ label: 'name', place: 'body', field: 'name' }],
  flags: [{ name: 'ram', place: 'body', field: 'ram_mb', type: 'size', unit: 'MiB', text: "'512m' is usual" }],
  hasBody: true,
  answer: 'envelope',
  example: '',
}

describe('the manual page of the command line', () => {
  it('contains each command with its arguments and flags, in the format of man pages', () => {
    expect(manualPage([operation])).to.contain(
      [
        '.TP',
        '\\fBberth guest create\\fP \\fIname\\fP',
        'Creates a guest. See \\fBberth image list\\fP\\&.',
        '.RS',
        '.TP',
        '\\fB\\-\\-ram <size>\\fP',
        "\\&'512m' is usual",
      ].join('\n'),
    )
  })

  it('does not contain the command that shells call to complete words', () =>
    expect(manualPage([operation])).not.to.contain('berth complete\\fP'))

  for (const [text, roff] of [
    ['.TH', '\\&.TH'],
    ["a\n'b", "a \\&'b"],
    ['\\fB-x', '\\efB\\-x'],
  ] as const)
    it(`contains ${JSON.stringify(text)} literally`, () => expect(escapeRoff(text)).to.equal(roff))

  it('shows code in bold', () => expect(proseRoff('use `a-b` here')).to.equal('use \\fBa\\-b\\fP here'))
})
