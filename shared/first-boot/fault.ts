/** The reason why first-boot data is refused; the caller adds the name of the field. */
export class FirstBootFault extends Error {}
