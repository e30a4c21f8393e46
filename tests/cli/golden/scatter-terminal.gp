# gnuplot 5.4 or later
reset
set encoding utf8
set terminal dumb size 80,32 noenhanced mono
set output
set title 'Step, predicted over measured: 2 pairs'
unset key
set tics nomirror out scale 0.5
set border 3
set logscale x
set xrange [5.47722558:32.8633535]
set xtics (10, 20)
set logscale y
set yrange [5.47722558:32.8633535]
set ytics (10, 20)
set xlabel 'measured step (ms)  A ring  B all-gather'
set ylabel 'predicted step (ms)'
$data0 << EOD
10 9.9 10.5 11 9 12.5
EOD
$data1 << EOD
20 20 20 19 19 19
EOD
set samples 200
plot x with points pointtype '.' notitle, $data0 using 1:4 with points pointtype 'A' notitle, $data1 using 1:4 with points pointtype 'B' notitle
unset output
