import { expect } from 'chai'
import { moduleUrl } from '../../test/support/programs.js'
import { apiDocument } from '../lib/api-document.js'
import { synonymsIn } from './glossary.js'

describe('the terms of the glossary', () => {
  for (const [audience, text, count] of [
    ['api', 'Starts the machine.', 1],
    ['api', 'Starts a virtual machine.', 0],
    ['api', 'Message for the customer.', 1],
    ['api', 'Restarts the guest.', 1],
    ['api', 'Needs the guest agent and `guest`.', 0],
    ['api', 'I/O operations per second.', 0],
    ['panel', 'Deletes the container.', 1],
    ['panel', 'Requires the scope container:create.', 0],
    ['panel', 'Message for the customer.', 0],
  ] as const)
    it(`replace ${count} words in "${text}", ${audience}`, () =>
      expect(synonymsIn(text, audience)).to.have.length(count))

  it('are used in the API document', () => {
    const texts = [...new Set(textsOf(apiDocument()))]
    expect(texts).to.have.length.greaterThan(500)
    expect(texts.flatMap((text) => synonymsIn(text, 'api'))).to.deep.equal([])
  })

  it('are used in the texts of the panel', async () => {
    const { en } = (await import(moduleUrl('panel/src/i18n/en/index.ts'))) as { en: Record<string, string> }
    expect(Object.values(en).flatMap((text) => synonymsIn(text, 'panel'))).to.deep.equal([])
  })
})

/** The summaries and descriptions in a document. */
function textsOf(node: unknown): string[] {
  if (typeof node !== 'object' || node === null) return []
  return Object.entries(node).flatMap(([key, value]) =>
    typeof value === 'string' && (key === 'summary' || key === 'description') ? [value] : textsOf(value),
  )
}
