import { expect } from 'chai'
import { parseQueue } from './block-queue.js'

describe('parseQueue', () => {
  for (const [text, scheduler, available] of [
    ['none [mq-deadline] kyber bfq', 'mq-deadline', ['none', 'mq-deadline', 'kyber', 'bfq']],
    ['[none]', 'none', ['none']],
    ['none', 'none', ['none']],
  ] as const)
    it(text, () => expect(parseQueue(text)).to.deep.equal({ scheduler, available }))
})
