// Mocha's spec output, plus the counts as one JSON line in the file that --reporter-option counts=FILE names.
const { appendFileSync } = require('node:fs')
const { reporters } = require('mocha')

module.exports = class CountingReporter extends reporters.Spec {
  constructor(runner, options) {
    super(runner, options)
    const file = options?.reporterOption?.counts ?? options?.reporterOptions?.counts
    runner.once('end', () => {
      const { passes, failures, pending } = this.stats
      if (file) appendFileSync(file, `${JSON.stringify({ passes, failures, pending })}\n`)
    })
  }
}
