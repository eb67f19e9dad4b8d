import { expect } from 'chai'
import { recipes } from './catalog.js'
import { planContent } from './content.js'

describe('the plan of Berth’s changes to the files of an image', () => {
  for (const entry of recipes) {
    const steps = planContent(entry)
    const pathOf = (step: (typeof steps)[number]): string => (step.op === 'empty' ? step.directory : step.path)

    it(`changes only files inside the root directory of ${entry.id}`, () => {
      for (const step of steps)
        expect(pathOf(step))
          .to.match(/^[a-z][A-Za-z0-9@._/-]*$/)
          .and.not.include('..')
    })

    it(`writes no executable or setuid files for ${entry.id}, and writes /var/.updated last`, () => {
      expect(pathOf(steps.at(-1)!)).to.equal('var/.updated')
      for (const step of steps) if (step.op === 'write') expect(step.mode & 0o7133).to.equal(0)
    })

    it(`sets Debian's own servers and the release of ${entry.id} as package sources`, () => {
      const sources = steps.find((step) => pathOf(step).endsWith('debian.sources'))
      expect(sources).to.have.property('text').that.includes(`Suites: ${entry.suite} ${entry.suite}-updates\n`)
      expect(sources).to.have.property('text').that.includes(`Suites: ${entry.suite}-security\n`)
    })
  }
})
